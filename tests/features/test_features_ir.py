"""Features of what was read of kernels: a group of its own, which no table has unless asked."""

import numpy as np
import pytest
from fake_records import fake_candidate

from costmodel.features import extract
from costmodel.features._extract import extract_in_chunks
from costmodel.features._ir import READ_COLUMNS, extract_read
from costmodel.features._table import FeatureTable, in_columns
from costmodel.kernels._read_facts import READ_FACTS, ReadFacts
from costmodel.records import Device, Platform, find_device
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

H100 = find_device("NVIDIA H100 80GB HBM3")
RESOURCES = ("issue", "special", "tensor", "shared", "l1", "l2", "memory", "latency", "barriers", "atomics")


def facts(**changed: float) -> ReadFacts:
    """What was read of a kernel that does a little of everything."""
    return ReadFacts(**{**dict.fromkeys(READ_FACTS, 64.0), "threads": 128.0, "programs": 1000.0, **changed})


def platform(sms: int = 32, device: Device = H100) -> Platform:
    return part_of(device, sms)


def column(table: FeatureTable, name: str) -> np.ndarray:
    return table.values[:, table.index(f"ir/{name}")]


def test_no_table_has_the_group_unless_asked() -> None:
    assert extract([fake_candidate()], [platform()]).indices("ir") == ()
    table = extract_read([facts()], [platform()])
    assert table.indices("ir") == tuple(range(len(READ_COLUMNS)))
    assert len({each.name for each in READ_COLUMNS}) == len(READ_COLUMNS)


def test_the_group_stands_behind_the_columns_of_all_tables_and_changes_none() -> None:
    kernels, places = [fake_candidate(tile=1), fake_candidate(tile=2)], [platform(8), platform(132)]
    read = {kernels[1].candidate_id: facts()}
    plain, table = extract(kernels, places), extract(kernels, places, read=read)
    assert table.columns[: len(plain.columns)] == plain.columns
    np.testing.assert_array_equal(table.values[:, : len(plain.columns)], plain.values)
    own = table.values[:, list(table.indices("ir"))]
    assert np.isnan(own[0]).all()
    by_name = np.argsort([each.name for each in READ_COLUMNS])
    np.testing.assert_array_equal(own[1], extract_read([facts()], places[1:]).values[0, by_name])
    np.testing.assert_array_equal(in_columns(table, [each.name for each in plain.columns]), plain.values)
    chunks = [(kernels[:1], places[:1]), (kernels[1:], places[1:])]
    np.testing.assert_array_equal(extract_in_chunks(chunks, read).table.values, table.values)


def test_rows_are_those_of_each_kernel_alone() -> None:
    kernels = [facts(), None, facts(load_bytes=1e6), facts()]
    places = [platform(8), platform(8), platform(132), platform(132)]
    together = extract_read(kernels, places)
    assert np.isnan(together.values[1]).all()
    for i, (kernel, place) in enumerate(zip(kernels, places, strict=True)):
        alone = extract_read([kernel], [place])
        np.testing.assert_array_equal(together.values[i], alone.values[0])
    assert np.isfinite(together.values[0]).all()


def test_what_is_not_known_is_nan_and_nothing_else() -> None:
    first_dialect = facts(**{name: np.nan for name in READ_FACTS if name.startswith("thread_")})
    table = extract_read([first_dialect], [platform()])
    assert np.isnan(column(table, "log2_thread_loads")).all()
    assert np.isfinite(column(table, "log2_load_bytes")).all()
    assert np.isfinite(column(table, "log2_memory_s")).all()


@pytest.mark.parametrize("resource", RESOURCES)
def test_no_time_rises_with_sms(resource: str) -> None:
    sms = list(range(4, 133, 4))
    table = extract_read([facts()] * len(sms), [platform(each) for each in sms])
    assert (np.diff(column(table, f"log2_{resource}_s")) <= 1e-9).all()
    assert (np.diff(column(table, "log2_total_s")) <= 1e-9).all()


@pytest.mark.parametrize(
    ("resource", "fact"),
    [
        ("issue", "thread_float_ops"),
        ("special", "thread_special_ops"),
        ("tensor", "thread_tensor_flops"),
        ("shared", "bank_turns"),
        ("l1", "request_lines"),
        ("l2", "load_distinct_sectors"),
        ("memory", "read_array_bytes"),
        ("latency", "memory_waits"),
        ("barriers", "barriers"),
        ("atomics", "atomics_per_address"),
    ],
)
def test_more_work_takes_its_resource_longer(resource: str, fact: str) -> None:
    few, many = extract_read([facts(), facts(**{fact: 640.0})], [platform()] * 2).values[
        :, [each.name for each in READ_COLUMNS].index(f"ir/log2_{resource}_s")
    ]
    assert many > few


@pytest.mark.parametrize(
    ("programs", "threads", "sms", "clocks"),
    [
        (8000, 128, 8, 1000 * 55),  # one after another on each SM
        (8000, 256, 8, 1000 * 8 * 12),  # by the warp, where there are many
        (132_000, 128, 132, 132_000 * 1.2),  # one after another on the device
    ],
)
def test_programs_take_their_time_to_start(programs: float, threads: float, sms: int, clocks: float) -> None:
    place = platform(sms)
    table = extract_read([facts(programs=programs, threads=threads)], [place])
    assert 2.0 ** column(table, "log2_start_s")[0] == pytest.approx(clocks / (1e6 * place.device.clock_mhz))


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="same length"):
        extract_read([facts()], [])
