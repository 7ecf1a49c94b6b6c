"""All sources keep one contract, and are opened by their names."""

import platform
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.kernels._sources import SOURCES, open_sources, source_for
from costmodel.records import Workload
from costmodel.testing import SOURCE_CHECKS, SourceCase

pytestmark = pytest.mark.white_box

MATMUL = Workload.parse("matmul-m32-n32-k32")
PROGRAM = """
from tvm import te

x = te.placeholder((64, 32), name="x")
k = te.reduce_axis((0, 32), "k")
sums = te.create_prim_func([x, te.compute((64,), lambda i: te.sum(x[i, k] * x[i, k], axis=k), name="sums")])
"""


# What needs packages that `make test` does not install.
IN_OTHER_TARGETS = ("library", "triton")


def case_of(name: str, folder: Path) -> SourceCase:
    if name == "tir":
        pytest.importorskip("tvm")
        from costmodel.kernels.metaschedule.programs._source import ProgramSource

        (folder / "program.py").write_text(PROGRAM)
        source = ProgramSource.open(f"{folder / 'program.py'}:sums")
        return SourceCase(source, source.workloads[0], "cpu", platform.machine())
    if name == "cuda" and find_spec("cuda") is None:
        pytest.skip("needs NVRTC")
    if name == "metaschedule":
        pytest.importorskip("tvm")
    (source,) = open_sources([name])
    if name == "cuda":
        return SourceCase(source, Workload.parse("cuda.transpose-m64-n64"), "cuda", "sm_90")
    if name == "triton":
        return SourceCase(source, Workload.parse("softmax-m64-n512-float16"), "cuda", "sm_90")
    return SourceCase(source, MATMUL, "cpu", platform.machine())


@pytest.mark.parametrize("check", SOURCE_CHECKS)
@pytest.mark.parametrize("name", [*(name for name in SOURCES if name not in IN_OTHER_TARGETS), "tir"])
def test_a_source_keeps_the_contract(
    name: str, check: Callable[[SourceCase, Path], None], tmp_path: Path
) -> None:
    check(case_of(name, tmp_path), tmp_path)


@pytest.mark.triton
@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_triton_keeps_the_contract(check: Callable[[SourceCase, Path], None], tmp_path: Path) -> None:
    pytest.importorskip("triton")
    check(case_of("triton", tmp_path), tmp_path)


@pytest.mark.torch
@pytest.mark.parametrize("check", SOURCE_CHECKS)
def test_the_library_keeps_the_contract(check: Callable[[SourceCase, Path], None], tmp_path: Path) -> None:
    pytest.importorskip("torch")
    check(case_of("library", tmp_path), tmp_path)


def test_an_unknown_source_is_refused() -> None:
    with pytest.raises(CostModelError, match="no-such-source"):
        open_sources(["no-such-source"])


def test_a_workload_is_made_by_the_first_source_that_can() -> None:
    sources = open_sources(["metaschedule", "cuda"])
    assert source_for(MATMUL, "cuda", sources).name == "metaschedule"
    assert source_for(MATMUL, "cuda", sources, "cuda").name == "cuda"
    with pytest.raises(CostModelError, match="kernels list"):
        source_for(Workload.parse("softmax-m8-n8"), "cuda", sources, "cuda")
