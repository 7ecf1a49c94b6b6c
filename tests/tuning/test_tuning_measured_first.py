"""A search for a Triton kernel of the user's own begins with what is best by what is read of its configs."""

from pathlib import Path

import pytest

pytest.importorskip("triton")

from costmodel.kernels.triton._source import TritonSource
from costmodel.records import Workload, find_device
from costmodel.records._platform import Device, Platform, part_of
from costmodel.tuning import check_kernels
from costmodel.tuning._knowledge import Knowledge
from costmodel.tuning._measured_first import read_first, source_to_read

pytestmark = [pytest.mark.triton, pytest.mark.white_box]

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def centre(x, y, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, mask=at < n, other=0.0)
    tl.store(y + row + at, tl.where(at < n, values - tl.sum(values, 0) / n, 0.0), mask=at < n)
"""
FAMILY = """
from pathlib import Path
import numpy as np
from costmodel import TritonFamily

def arrays(dims, rng):
    shape = dims["m"], dims["n"]
    return {"x": rng.standard_normal(shape).astype(np.float32), "y": np.full(shape, np.nan, np.float32)}

FAMILY = TritonFamily(
    name="centre", kernel=Path(__file__).with_name("kernel.py"), function="centre", dims={"m": 64, "n": 200},
    grid=("m",), parameters={"BLOCK": (), "num_warps": ()}, scalars={"n": "n"}, arrays=arrays, outputs=("y",),
)
"""
H100 = part_of(find_device("NVIDIA H100 80GB HBM3"), 32)


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TritonSource:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "kernel.py").write_text(KERNEL)
    (tmp_path / "family.py").write_text(FAMILY)
    return TritonSource([tmp_path])


def test_a_quarter_of_the_trials_goes_to_what_can_be_right(source: TritonSource) -> None:
    workload = source.families[0].workload()
    assert source.families[0].choices["BLOCK"][0] < 200  # too small for a row
    found = read_first(source, workload, [H100], 16, seed=0)
    assert len({each.candidate_id for each in found}) == 4
    assert all(each.config.decisions["BLOCK"] >= 256 for each in found)
    assert found[:2] == read_first(source, workload, [H100], 8, seed=0)


def test_elsewhere_nothing_is_read(source: TritonSource) -> None:
    workload = source.families[0].workload()
    cpu = Platform(Device("a CPU", "cpu", "x86", 4, 0.0), "whole", 4, 4)
    assert read_first(source, workload, [cpu], 16, seed=0) == []
    assert read_first(None, workload, [H100], 16, seed=0) == []


def test_a_check_tells_what_configs_should_take(source: TritonSource, tmp_path: Path) -> None:
    found = check_kernels(tmp_path, device="H200", sms=16, configs=6)
    assert found.expected_on == "NVIDIA H200/green_context/16"
    assert found.compiled.architecture == "sm_90"
    assert len(found.expected) == found.compiled.compiled
    told = {
        each.config.decisions["BLOCK"]: expected
        for each, expected in zip(found.compiled.configs, found.expected, strict=True)
    }
    assert all(
        (expected is None) == (block < 200) for block, expected in told.items()
    )  # such a row ends early
    assert all(each.low < each.expected < each.high for each in told.values() if each)


def test_a_family_that_ships_is_read_if_nothing_was_measured_of_it(source: TritonSource) -> None:
    workload = Workload.parse("triton.expert_routing-t64-e16-k2-s100")
    shipped = source_to_read(None, workload, {"triton": Knowledge()})
    found = read_first(shipped, workload, [H100], 8, seed=0)
    assert len(found) == 2
    assert {each.workload for each in found} == {workload}
    assert source_to_read(source, workload, {"triton": Knowledge()}) is source
    assert source_to_read(None, workload, {"library": Knowledge()}) is None
    assert source_to_read(None, Workload.parse("matmul-m8-n8-k8"), {"triton": Knowledge()}) is None
    trained = Knowledge(model=object())  # type: ignore[arg-type]
    assert source_to_read(None, workload, {"triton": trained}) is None
