import inspect
import subprocess
import sys
from types import ModuleType
from unittest import mock

import pytest

from costmodel.kernels.metaschedule import (
    _tensor_intrin,
    register_tensor_intrinsics,
    without_tensor_intrinsics,
)

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
            "from costmodel.kernels.metaschedule import open_space, sample_candidates",
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


def test_the_light_stack_has_the_frames_of_the_original() -> None:
    def told(frames: list[inspect.FrameInfo]) -> list[tuple[object, ...]]:
        return [(frame.frame, frame.filename, frame.function) for frame in frames]

    assert told(_tensor_intrin._stack_without_source()) == told(inspect.stack(0))


def test_the_stack_is_restored_when_the_import_fails() -> None:
    original = inspect.stack
    broken = mock.patch.object(_tensor_intrin, "import_module", side_effect=ImportError("broken"))
    with broken, pytest.raises(ImportError, match="broken"):
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
