import inspect
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType
from unittest import mock

import pytest

from costmodel.kernels.metaschedule._tvm_start import (
    register_tensor_intrinsics,
    without_tensor_intrinsics,
)

pytestmark = pytest.mark.white_box

MODULE = "tvm.s_tir.tensor_intrin"


def python(code: str) -> list[str]:
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.split()


@pytest.mark.tvm
def test_opening_a_float16_space_registers_them_and_a_float32_space_does_not_import_them() -> None:
    pytest.importorskip("tvm")
    names, code = (
        ("matmul-m32-n32-k32", "matmul-m32-n32-k32-float16"),
        [
            "import inspect, sys, tvm",
            "from costmodel.records import Workload",
            "from costmodel.kernels.metaschedule._source import open_space, sample_candidates",
            "original = inspect.stack",
            "target = tvm.target.Target('nvidia/nvidia-h100')",
            "get = lambda: tvm.s_tir.TensorIntrin.get('wmma_sync_16x16x16_f16f16f16', allow_missing=True)",
            "for name in {names}:",
            "    [candidate] = sample_candidates(Workload.parse(name), 'cuda', 1, seed=0)",
            "    module = open_space(candidate.workload, 'cuda').schedule(candidate.config).mod",
            "    with target: tvm.compile(module, target=target)",
            f"    print('{MODULE}' in sys.modules, get() is not None, inspect.stack is original)",
        ],
    )
    printed = python("\n".join(code).format(names=names))
    assert printed == ["False", "False", "True", "True", "True", "True"]


class Planted(MetaPathFinder, Loader):
    """Stands in for TVM's module: importing it does what a test says."""

    def __init__(self, act: Callable[[], None]) -> None:
        self._act = act

    def find_spec(self, name: str, *_: object) -> ModuleSpec | None:
        return spec_from_loader(name, self) if name == MODULE else None

    def exec_module(self, _: ModuleType) -> None:
        self._act()


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Callable[[], None]], None]]:
    pytest.importorskip("tvm.s_tir")
    with mock.patch.dict(sys.modules):
        sys.modules.pop(MODULE, None)
        yield lambda act: monkeypatch.setattr(sys, "meta_path", [Planted(act), *sys.meta_path])


@pytest.mark.tvm
def test_during_the_import_the_stack_has_the_frames_of_the_original(plant) -> None:
    original, told = inspect.stack, []

    def read() -> None:
        for stack in (inspect.stack(), original(0)):
            told.append([(frame.frame, frame.filename, frame.function) for frame in stack])
        assert inspect.stack is not original

    plant(read)
    register_tensor_intrinsics()
    assert told[0] == told[1]
    assert len(told[0]) > 5
    assert inspect.stack is original


@pytest.mark.tvm
def test_the_stack_is_restored_when_the_import_fails(plant) -> None:
    original = inspect.stack

    def fail() -> None:
        raise ImportError("broken")

    plant(fail)
    with pytest.raises(ImportError, match="broken"):
        register_tensor_intrinsics()
    assert inspect.stack is original


def test_inside_the_block_the_import_does_nothing() -> None:
    with mock.patch.dict(sys.modules):
        sys.modules.pop(MODULE, None)
        with without_tensor_intrinsics():
            assert vars(sys.modules[MODULE])["__name__"] == MODULE
            assert not hasattr(sys.modules[MODULE], "cuda")
        assert MODULE not in sys.modules


def test_what_is_imported_stays() -> None:
    with mock.patch.dict(sys.modules, {MODULE: (real := ModuleType(MODULE))}):
        with without_tensor_intrinsics():
            assert sys.modules[MODULE] is real
        assert sys.modules[MODULE] is real
