"""What a GPU's runner tells of kernels that were built, without a GPU."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from costmodel.collector import CudaRunner
from costmodel.kernels._artifact import Built
from costmodel.kernels.cuda._nvrtc import CudaCode, compile_source
from costmodel.records import Candidate, Config, Outcome, Workload

pytestmark = pytest.mark.white_box

AT_ONCE = 4
CANDIDATES = [
    Candidate(Workload.parse("matmul-m64-n64-k64"), "test", Config({"which": i})) for i in range(10)
]


class Builders:
    """Has a file for each candidate, and fails to build the second."""

    def __init__(self, library: Path) -> None:
        self.library, self.built_ = library, list[Candidate]()
        self.started: list[Candidate] = []

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        self.started += candidates

    def built(self, candidate: Candidate) -> tuple[Built, Path | None]:
        assert candidate in self.started  # all are built at once
        self.built_.append(candidate)
        if candidate == CANDIDATES[1]:
            return Built(Outcome.COMPILE_ERROR, error="no"), None
        return Built(Outcome.OK, self.library), None


class Runner(CudaRunner):
    """Opens no device."""

    def __init__(self, builders: Builders) -> None:
        self._builders = builders  # type: ignore[assignment]

    @property
    def in_flight(self) -> int:
        return AT_ONCE


def test_each_is_built_once_and_counted_in_order(tmp_path: Path) -> None:
    pytest.importorskip("cuda.bindings.nvrtc")
    source = 'extern "C" __global__ void kernel(float* a) { a[threadIdx.x] *= 2; }'
    code = CudaCode(source, "kernel.cu", "kernel", {}, (), tmp_path)
    library = tmp_path / "kernel.so"
    library.write_bytes(b"\x7fELF host code" + compile_source(code, "sm_90").cubin)
    builders = Builders(library)

    found = Runner(builders).machine_code(CANDIDATES)

    assert [each is None for each in found] == [i == 1 for i in range(10)]
    assert {each.store for each in found if each} == {1.0}
    assert builders.built_ == builders.started == CANDIDATES


def test_nothing_more_is_built_where_builders_leave_machine_code_to_the_driver(tmp_path: Path) -> None:
    library = tmp_path / "kernel.so"
    library.write_bytes(b"\x7fELF host code and PTX")
    builders = Builders(library)

    assert Runner(builders).machine_code(CANDIDATES) == [None] * 10
    assert builders.started == CANDIDATES[:AT_ONCE]
