"""What launches say of data: columns of their own, and times and rooflines that follow from it."""

import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
from fake_records import fake_candidate, fake_platform
from hypothesis import given, settings
from hypothesis import strategies as st

import costmodel.kernels.cuda
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.features._data_facts import DATA_COLUMNS
from costmodel.features._extract import COLUMNS, extract_batch, extract_in_chunks
from costmodel.features._table import FeatureTable, in_columns
from costmodel.kernels import CudaFamily
from costmodel.records import Candidate, Config, Platform, Workload, find_device
from costmodel.records._candidate import DATA_FACTS, KernelLaunch
from costmodel.records._platform import part_of
from costmodel.search import KernelSpace

pytestmark = pytest.mark.white_box

REDUCTION = Path(costmodel.kernels.cuda.__file__).parent / "families" / "reduction"
H100 = find_device("NVIDIA H100 80GB HBM3")
PLATFORM = part_of(H100, 32)
CLOCK, BANDWIDTH = H100.clock_mhz * 1e6, H100.bandwidth_gb_s * 1e9
WORK = {"flops": 10**6, "global_load_bytes": 3 * 10**9, "global_store_bytes": 10**9}
NAMES = [column.name for column in DATA_COLUMNS]


def gather(tile: int = 1, **facts: int) -> Candidate:
    """A kernel of a family, with what is said of its launch."""
    launches = (KernelLaunch(1000, 256, **{**WORK, **facts}),)
    return Candidate(
        Workload.parse("cuda.gather-n64"), "cuda-gather-0123abcd", Config({"tile": tile}), launches
    )


def table_of(*candidates: Candidate, platform: Platform = PLATFORM) -> FeatureTable:
    return extract(candidates, [platform] * len(candidates))


def column(table: FeatureTable, name: str) -> np.ndarray:
    return table.values[:, table.index(name)]


def of_data(table: FeatureTable) -> list[str]:
    return [column.name for column in table.columns if column.name.startswith("data/")]


def seconds(candidate: Candidate, name: str, platform: Platform = PLATFORM) -> float:
    """A time of the candidate, from its column."""
    table = table_of(candidate, platform=platform)
    return float(2.0 ** (column(table, f"{name}_over_roofline") + column(table, "log2_roofline_s"))[0])


def test_only_tables_in_which_a_launch_says_it_have_the_columns() -> None:
    silent = table_of(gather(), gather(2), fake_candidate())
    assert of_data(silent) == []
    for name in DATA_FACTS:
        table = table_of(gather(), gather(2, **{name: 7}), fake_candidate())
        assert of_data(table) == NAMES
        at = [i for i, each in enumerate(table.columns) if each.name not in NAMES]
        assert tuple(table.columns[i] for i in at) == silent.columns
        np.testing.assert_array_equal(table.values[np.ix_([0, 2], at)], silent.values[[0, 2]])
        data = table.values[:, [table.index(each) for each in NAMES]]
        assert np.isnan(data[[0, 2]]).all()
        assert not np.isnan(data[1]).all()
    assert {each.group for each in DATA_COLUMNS} == {"launch"}


def test_columns_stand_by_name_among_those_of_families() -> None:
    suite = msgspec.structs.replace(gather(), workload=Workload.parse("suite.gather-n64"))
    own = [each.name for each in table_of(suite, gather(atomics=5)).columns[len(COLUMNS) :]]
    families = [f"{family}.gather/{own}" for family in ("cuda", "suite") for own in ("", "n", "tile")]
    assert own == [*families[:3], *NAMES, *families[3:]]


def test_each_column_is_what_it_says() -> None:
    said = gather(
        device_bytes=5 * 10**8,
        atomics=2**20 - 1,
        atomic_addresses=2**10,
        busiest_block_bytes=8 * 10**6,
        longest_chain=15,
    )
    table = table_of(said, gather(device_bytes=10**8), gather(atomics=3))
    nan = np.nan
    expected = {
        "data/is_call": [0.0, 0.0, 0.0],
        "data/log2_atomics": [20.0, 0.0, 2.0],
        "data/log2_atomics_per_address": [np.log2((2**20 - 1) / 2**10), 0.0, nan],
        "data/log2_block_imbalance": [1.0, nan, nan],  # 8 MB of 4 GB in 1,000 blocks
        "data/log2_chain": [4.0, 0.0, 0.0],
        "data/log2_device_bytes": [np.log2(5e8), np.log2(1e8), nan],
        "data/log2_reuse": [3.0, np.log2(40), nan],
    }
    for name, values in expected.items():
        np.testing.assert_allclose(column(table, name), values, err_msg=name)
    roofline = column(table, "log2_roofline_s")
    # What is said to be moved bounds the time from below; where nothing is said, what is written.
    np.testing.assert_allclose(roofline, np.log2([5e8 / BANDWIDTH, 1e8 / BANDWIDTH, 1e9 / BANDWIDTH]))
    np.testing.assert_allclose(column(table, "log2_memory_over_roofline")[:2], 0.0, atol=1e-9)


def test_memory_moves_what_is_said_whatever_the_cache_holds() -> None:
    for l2_bytes in (1 << 16, H100.l2_bytes):
        device = msgspec.structs.replace(H100, l2_bytes=l2_bytes)
        found = seconds(gather(device_bytes=2 * 10**9), "log2_memory", part_of(device, 32))
        assert found == pytest.approx(2e9 / BANDWIDTH)
    matmul = Workload.parse("matmul-m64-n64-k64")
    known = msgspec.structs.replace(gather(device_bytes=2 * 10**9), workload=matmul)
    assert seconds(known, "log2_memory") == pytest.approx(2e9 / BANDWIDTH)
    bound = column(table_of(known), "log2_roofline_s")  # an operator's does not depend on its kernels
    np.testing.assert_array_equal(bound, column(table_of(fake_candidate(matmul.name)), "log2_roofline_s"))


def test_atomics_take_the_time_of_an_sm_or_of_their_address() -> None:
    """1,000 blocks of 8 that are resident at once: the fullest of 32 SMs works on 32 of them."""
    spread = gather(atomics=10**9, atomic_addresses=10**9)
    assert seconds(spread, "data/log2_atomics") == pytest.approx(1e9 * 32 / 1000 / CLOCK)
    one = gather(atomics=10**9, atomic_addresses=1)
    assert seconds(one, "data/log2_atomics") == pytest.approx(1e9 / CLOCK)
    assert seconds(gather(atomics=10**9), "data/log2_atomics") == seconds(spread, "data/log2_atomics")
    for each in (spread, one):
        more = 2.0 ** column(table_of(each), "log2_analytic_s") - 2.0 ** column(
            table_of(gather()), "log2_analytic_s"
        )
        assert more == pytest.approx(seconds(each, "data/log2_atomics"))


def test_the_busiest_block_is_waited_for() -> None:
    even, uneven, alone = (gather(busiest_block_bytes=size * 10**6) for size in (4, 400, 4000))
    assert seconds(even, "log2_l2") == seconds(gather(), "log2_l2")
    assert seconds(uneven, "log2_l2") > 2 * seconds(even, "log2_l2")
    assert seconds(alone, "log2_l2") == pytest.approx(10 * seconds(uneven, "log2_l2"))
    whole = part_of(H100, H100.sms)
    assert seconds(alone, "log2_l2", whole) == pytest.approx(
        seconds(alone, "log2_l2")
    )  # more SMs do not help


def test_loads_that_follow_one_another_are_waited_for_whatever_the_sms() -> None:
    few, many = gather(device_bytes=10**6, longest_chain=1), gather(device_bytes=10**6, longest_chain=10**5)
    waited_s = 10**5 * 800 / CLOCK
    for sms in (8, 132):
        platform = part_of(H100, sms)
        assert seconds(many, "log2_latency", platform) == pytest.approx(waited_s)
        assert seconds(few, "log2_latency", platform) == seconds(gather(), "log2_latency", platform)


facts_of_data = st.fixed_dictionaries(
    {name: st.sampled_from([0, 1, 10**4, 10**7, 10**9]) for name in DATA_FACTS}
)


@settings(max_examples=60)
@given(
    facts=facts_of_data,
    fewer=st.integers(1, 132),
    more=st.integers(1, 132),
    size=st.sampled_from(["clock_mhz", "bandwidth_gb_s", "l2_bytes"]),
    factor=st.floats(1.0, 8.0),
)
def test_no_time_rises_with_sms_or_the_size_of_anything(
    facts: dict[str, int], fewer: int, more: int, size: str, factor: float
) -> None:
    fewer, more = sorted((fewer, more))
    larger = msgspec.structs.replace(H100, **{size: type(getattr(H100, size))(getattr(H100, size) * factor)})
    platforms = [part_of(H100, fewer), part_of(H100, more), part_of(larger, more)]
    table = extract([gather(**facts)] * 3, platforms)
    times = [column(table, "log2_analytic_s")]
    if of_data(table):
        roofline = column(table, "log2_roofline_s")
        atomics = column(table, "data/log2_atomics_over_roofline")
        times.append(atomics + roofline)
    for each in times:
        assert each[1] <= each[0] + 1e-9
        assert each[2] <= each[1] + 1e-9


def test_a_model_of_one_table_takes_the_other() -> None:
    plain, saying = table_of(gather(1)), table_of(gather(1, device_bytes=10**8, atomics=4))
    names = [[each.name for each in table.columns] for table in (plain, saying)]
    np.testing.assert_array_equal(in_columns(plain, names[0]), plain.values)
    wide = in_columns(plain, names[1])
    beside = table_of(gather(1), gather(1, device_bytes=10**8, atomics=4))
    np.testing.assert_array_equal(wide, beside.values[:1])
    narrow = in_columns(saying, names[0])
    np.testing.assert_array_equal(narrow[0], [saying.values[0, saying.index(name)] for name in names[0]])
    with pytest.raises(CostModelError, match="feature columns"):
        in_columns(plain, [*names[1], "log2_new"])


def test_features_in_chunks_are_those_of_all_rows_at_once() -> None:
    """Also where only some chunks have a launch that says what data decide."""
    rng = np.random.default_rng(0)
    kinds = [fake_candidate(), gather(1), gather(2), gather(4, device_bytes=10**7), gather(8, atomics=3)]
    drawn = [kinds[i] for i in rng.integers(len(kinds), size=60)]
    platforms = [fake_platform(int(sms)) for sms in rng.choice([8, 132], size=60)]
    whole = extract(drawn, platforms)
    assert of_data(whole) == NAMES
    for rows in (1, 7, 60):
        found = extract_in_chunks(
            (drawn[at : at + rows], platforms[at : at + rows]) for at in range(0, 60, rows)
        )
        assert found.columns == whole.columns
        np.testing.assert_array_equal(found.table.values, whole.values)


@pytest.fixture
def family(tmp_path: Path) -> CudaFamily:
    """One that says all, with expected values that are not whole."""
    document = json.loads((REDUCTION / "reduction.json").read_text())
    document["Workload"]["Launch"] = {
        **dict.fromkeys(("GlobalLoadBytes", "GlobalStoreBytes", "SharedLoadBytes"), "4 * n"),
        **dict.fromkeys(("SharedStoreBytes", "LocalBytes", "TensorFlops", "VectorBytes", "UnrollSteps"), "0"),
        "SharedBytes": "256",
        "DeviceBytes": "n / 3",
        "Atomics": "n / 7 if rows_per_block > 2 else 0",
        "AtomicAddresses": "blocks / 3",
        "BusiestBlockBytes": "4.5 * n / blocks",
    }
    (tmp_path / "reduction.json").write_text(json.dumps(document))
    (tmp_path / "reduction.cu").write_text((REDUCTION / "reduction.cu").read_text())
    return CudaFamily.load(tmp_path)


def test_a_family_says_the_same_before_a_build_as_is_recorded(family: CudaFamily) -> None:
    space = family.space(family.workload(n=1001))
    batch = space.draw(0, 40, np.random.default_rng(0))
    candidates = [space.candidate(config) for config in batch.configs()]
    assert {bool(each.launches[0].atomics) for each in candidates} == {True, False}
    recorded = extract(candidates, [PLATFORM] * len(candidates))
    before = extract_batch(batch, PLATFORM, space.launches(batch), candidates[0].family)
    assert before.columns == recorded.columns
    np.testing.assert_allclose(before.values, recorded.values)
    assert of_data(before) == NAMES


def test_a_space_has_the_columns_whatever_few_of_its_configs_say(family: CudaFamily) -> None:
    document = json.loads(family.file.read_text())
    document["Workload"]["Launch"] = {"Atomics": "n if rows_per_block > 2 else 0"}
    family.file.write_text(json.dumps(document))
    space = KernelSpace(CudaFamily.load(family.file).space(), PLATFORM)
    drawn = space.draw(1000, np.random.default_rng(0))
    silent = [config for config in drawn.configs if config.decisions["rows_per_block"] <= 2][:3]
    saying = [config for config in drawn.configs if config.decisions["rows_per_block"] > 2][:3]
    together, alone = space.features([*silent, *saying]), space.features(silent)
    np.testing.assert_array_equal(together[:3], alone)
    plain = KernelSpace(CudaFamily.load(REDUCTION).space(), PLATFORM).features(silent)
    assert together.shape == (6, 1, plain.shape[2] + len(NAMES))


def call(**facts: int) -> Candidate:
    """A library's call, of which no block is known."""
    launches = (KernelLaunch(0, 0, vthreads=0, **facts),)
    return Candidate(
        Workload.parse("cuda.gather-n64"), "library-cuda-0123abcd", Config({"call": "eager"}), launches
    )


def test_a_call_takes_the_times_of_work_that_fills_all_sms() -> None:
    facts = {"flops": 10**9, "global_load_bytes": 3 * 10**8, "device_bytes": 10**8}
    eager, sms = call(**facts), PLATFORM.sms_granted
    assert seconds(eager, "log2_compute") == pytest.approx(1e9 / (sms * 2 * H100.fp32_lanes_per_sm * CLOCK))
    assert seconds(eager, "log2_l2") == pytest.approx(3e8 / (sms * 64 * CLOCK))
    assert seconds(eager, "log2_memory") == pytest.approx(1e8 / BANDWIDTH)
    table = table_of(eager)
    assert 2.0 ** column(table, "log2_roofline_s")[0] == pytest.approx(
        max(1e8 / BANDWIDTH, 1e9 / (sms * 2 * H100.fp32_lanes_per_sm * CLOCK))
    )
    assert column(table, "data/is_call")[0] == 1.0
    unknown = ["log2_blocks", "log2_waves", "occupancy", "log2_shared_bytes", "data/log2_chain"]
    assert all(np.isnan(column(table, name)[0]) for name in unknown)


def test_a_call_leaves_kernels_beside_it_as_they_are() -> None:
    alone, beside = table_of(gather(device_bytes=10**9)), table_of(gather(device_bytes=10**9), call(flops=9))
    at = [beside.index(each.name) for each in alone.columns]
    np.testing.assert_array_equal(alone.values[0], beside.values[0, at])
