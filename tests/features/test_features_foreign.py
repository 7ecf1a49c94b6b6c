"""Columns of kernels of other suites."""

import msgspec
import numpy as np
import pytest
from fake_records import fake_candidate, fake_platform

from costmodel.features import extract
from costmodel.features._extract import COLUMNS, extract_in_chunks
from costmodel.records import Candidate, Config, Device, Platform, Workload, find_device
from costmodel.records._candidate import KernelLaunch
from costmodel.records._platform import part_of

pytestmark = pytest.mark.white_box

UNKNOWN = Platform(Device("A", "hip", "", 0, 0.0), "whole", 0, 0)


def foreign(kind: str = "suite.conv", **decisions: int | float | str) -> Candidate:
    return Candidate(Workload(kind, {"x": 8}, ""), "space", Config(decisions))


def column(table, name: str) -> list[float]:
    return table.values[:, table.index(name)].tolist()


def test_parameters_and_sizes_become_columns_of_their_kernel() -> None:
    candidates = [
        foreign(block=3, layout="row"),
        foreign(block=-7, layout="col"),
        foreign("suite.gemm", block=1),
        fake_candidate(),
    ]
    table = extract(candidates, [UNKNOWN] * 3 + [fake_platform()])
    nan = np.nan
    np.testing.assert_equal(column(table, "suite.conv/block"), [2.0, -3.0, nan, nan])
    np.testing.assert_equal(column(table, "suite.conv/x"), [np.log2(9), np.log2(9), nan, nan])
    np.testing.assert_equal(column(table, "suite.conv/layout=row"), [1.0, 0.0, nan, nan])
    np.testing.assert_equal(column(table, "suite.gemm/block"), [nan, nan, 1.0, nan])
    assert column(table, "suite.gemm/") == [0.0, 0.0, 1.0, 0.0]
    groups = {c.name: c.group for c in table.columns[len(COLUMNS) :]}
    assert groups["suite.conv/"] == groups["suite.conv/x"] == "workload"
    assert groups["suite.conv/block"] == groups["suite.conv/layout=row"] == "config"


def test_what_is_unknown_of_a_foreign_kernel_is_missing_and_operators_keep_their_columns() -> None:
    ours = extract([fake_candidate()], [fake_platform()])
    both = extract([fake_candidate(), foreign(unroll=-1)], [fake_platform(), UNKNOWN])
    assert ours.columns == COLUMNS
    np.testing.assert_equal(both.values[0, : len(COLUMNS)], ours.values[0])
    known = {c.name for c, value in zip(COLUMNS, both.values[1], strict=False) if not np.isnan(value)}
    assert known == {"is_whole_device", "launches", "log2_max_threads_per_sm"}


def test_the_roofline_of_a_foreign_kernel_is_that_of_what_its_launches_compute_and_write() -> None:
    """As an operator's, so that kernels that differ in everything else share how far they stay above it."""
    device, sms = find_device("NVIDIA H100 80GB HBM3"), 32
    platform = part_of(device, sms)
    peak = 2 * device.fp32_lanes_per_sm * device.clock_mhz * 1e6 * sms
    tensor = device.tensor_flops_per_sm_clock * device.clock_mhz * 1e6 * sms
    work = {"flops": 10**12, "global_store_bytes": 10**3}
    launches = [
        KernelLaunch(64, 128, **work),
        KernelLaunch(64, 128, **work, tensor_flops=10**12),
        KernelLaunch(64, 128, flops=1, global_store_bytes=10**9),
    ]
    candidates = [msgspec.structs.replace(foreign(), launches=(each,)) for each in launches]
    table = extract([*candidates, foreign()], [platform] * 4)
    bounds_s = [1e12 / peak, 1e12 / tensor, 1e9 / (device.bandwidth_gb_s * 1e9), np.nan]
    np.testing.assert_allclose(column(table, "log2_roofline_s"), np.log2(bounds_s))
    compute = np.exp2(column(table, "log2_compute_over_roofline"))
    assert np.all(compute[:2] >= 1.0)
    assert np.isnan(compute[3])
    assert np.isnan(column(table, "log2_flops")).all()


def test_features_in_chunks_are_those_of_all_rows_at_once() -> None:
    """Also where a chunk has none of a family, or not all values of a parameter."""
    rng = np.random.default_rng(0)
    foreign = [
        Candidate(Workload.parse(f"suite.{kernel}-x{size}"), "s", Config({name: tile, "order": order}))
        for kernel, name in (("gemm", "tile"), ("copy", "block"))
        for size in (64, 128)
        for tile in (1, 2, 4)
        for order in ("row", "column", "z")
    ]
    candidates = [fake_candidate(tile=1), fake_candidate(tile=2), *foreign]
    drawn = [candidates[i] for i in rng.integers(len(candidates), size=200)]
    platforms = [fake_platform(int(sms)) for sms in rng.choice([8, 132], size=200)]
    whole = extract(drawn, platforms)
    for rows in (1, 7, 199, 200, 1000):
        starts = range(0, 200, rows)
        chunks = ((drawn[at : at + rows], platforms[at : at + rows]) for at in starts)
        found = extract_in_chunks(chunks)
        assert found.columns == whole.columns
        np.testing.assert_array_equal(found.table.values, whole.values)
        some = rng.integers(200, size=50)
        np.testing.assert_array_equal(found[some], whole.values[some])
    assert extract_in_chunks([]).table.values.shape == extract([], []).values.shape


def test_columns_that_no_row_has_take_no_memory() -> None:
    foreign = Candidate(Workload.parse("suite.gemm-x64"), "s", Config({"tile": 4}))
    found = extract_in_chunks([([foreign], [fake_platform(8)]), ([foreign], [fake_platform(132)])])
    names = [found.columns[i].name for i in found.known]
    assert "gemm/tile" in {name.rpartition(".")[2] for name in names}
    assert len(names) < len(COLUMNS) / 2
    assert all(values.shape == (2,) for values in found.known.values())


def test_sizes_are_of_the_workload_whatever_computes_it() -> None:
    workload = Workload.parse("cuda.rows-n64")
    own = Candidate(workload, "cuda-rows-0123abcd", Config({"block_size": 128}))
    library = Candidate(workload, "library-cuda-0123abcd", Config({"call": "eager"}))
    table = extract([own, library], [fake_platform()] * 2)
    assert table.values[:, table.index("cuda.rows/n")].tolist() == [np.log2(65)] * 2
    assert not any(column.name == "library.cuda/n" for column in table.columns)
