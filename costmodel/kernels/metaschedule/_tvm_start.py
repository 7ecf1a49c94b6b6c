"""How processes of this package start TVM, and what it makes kernels for.

They start it without torch, register intrinsics quickly, and parse CUDA's headers once.
"""

import inspect
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from threading import RLock
from types import ModuleType
from typing import Any

from costmodel.kernels.cuda._nvrtc import FIRST_WITH_HEADERS, nvrtc_version
from costmodel.records._platform import TargetKind, check_compute_capability

_MODULE = "tvm.s_tir.tensor_intrin"
_LOCK = RLock()  # what changes what the whole process sees holds it for as long
_OPTIONS = "TVM_CUDA_NVRTC_EXTRA_OPTS"  # which TVM hands to NVRTC after its own
# All that TVM puts in front of every kernel. NVRTC precompiles what stands before the first declaration, and
# TVM declares something after its first header: named here, they all come first.
_HEADERS = ("cuda/std/cstdint", "cuda/std/limits", "cuda/std/type_traits")
_NOTHING = 'extern "C" __global__ void nothing() {}'


def import_tvm_for(kind: TargetKind) -> None:
    """Import TVM in a process that uses it for one kind of device, for a CPU without torch.

    TVM imports torch wherever it is installed, to exchange tensors with it. In a process that exchanges none,
    it is over two thirds of the time: 4.2 instead of 1.2 s of processor time. Torch can be imported later;
    where it is there already, TVM takes it. For CUDA it stays: TVM's runtime needs ``libcudart.so.13``,
    which it may only find because torch has loaded it.
    """
    without = kind == "cpu" and "torch" not in sys.modules
    if without:
        sys.modules["torch"] = None  # type: ignore[assignment]  # what makes an import fail, as if it were absent
    try:
        import tvm  # noqa: F401
    finally:
        if without:
            del sys.modules["torch"]


@contextmanager
def without_tensor_intrinsics() -> Iterator[None]:
    """Let ``import tvm.s_tir.tensor_intrin`` inside the block do nothing.

    ``TuneContext`` imports that module for its side effect, the registration of intrinsics that only
    tensorised schedules use. It parses TVMScript for 10 to 90 s in every new process.
    """
    with _LOCK:
        if _MODULE in sys.modules:
            yield
            return
        sys.modules[_MODULE] = ModuleType(_MODULE)
        try:
            yield
        finally:
            del sys.modules[_MODULE]


def register_tensor_intrinsics() -> None:
    """Import ``tvm.s_tir.tensor_intrin``, which registers what tensorised schedules refer to by name.

    TVM asks for the stack before each of some 250 functions, and reading the source lines of all its frames
    is most of the import's time: 1.8 s without them, 12.6 s with them, on the same quiet machine.
    """
    with _LOCK:
        original = inspect.stack
        inspect.stack = _stack_without_source
        try:
            import_module(_MODULE)
        finally:
            inspect.stack = original


def _stack_without_source(context: int = 1) -> list[inspect.FrameInfo]:
    """``inspect.stack`` with all that TVM reads of it: the frames themselves and where they are."""
    frames, frame = [], inspect.currentframe()
    while frame and (frame := frame.f_back):
        code = frame.f_code
        frames.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
    return frames


def precompile_headers(architecture: str) -> None:
    """Let NVRTC keep its headers precompiled in a temporary folder of this process.

    The kernels stay the same to the byte. A small one takes 0.15 s of one core instead of 0.55 s. Without
    NVRTC, or with an old one, nothing changes.

    Args:
        architecture: What kernels will be compiled for, such as ``sm_90a``.
    """
    version = nvrtc_version()
    if version is None or version < FIRST_WITH_HEADERS:
        return
    folder = tempfile.mkdtemp(prefix="headers-")
    options = [f"--pre-include={header}" for header in _HEADERS]
    os.environ[_OPTIONS] = " ".join(
        [os.environ.get(_OPTIONS, ""), *options, "--pch", f"--pch-dir='{folder}'"]
    ).strip()
    from tvm.support import nvcc

    with suppress(RuntimeError):  # CUDA's headers are not installed: each build will tell
        nvcc.compile_cuda(_NOTHING, target_format="cubin", arch=architecture, compiler="nvrtc")


# From Hopper on, code for exactly one architecture may use all of it (CUDA C++ Programming Guide,
# "Architecture-Specific Features").
_FIRST_SPECIFIC = 90


def make_target(kind: TargetKind, architecture: str = "sm_90") -> Any:
    """TVM target of the local device kind. Loads TVM.

    But for what CUDA compiles, it is Hopper's on every GPU, so that all have the same design spaces. Their
    limits hold on every GPU since Volta.

    Args:
        kind: Kind of device.
        architecture: Of a GPU, such as ``sm_90``.
    """
    import tvm

    if kind == "cpu":
        return tvm.target.Target({"kind": "llvm", "num-cores": _physical_cores()})
    capability = check_compute_capability(architecture)
    suffix = "a" if capability >= _FIRST_SPECIFIC else ""
    hopper = tvm.target.Target("nvidia/nvidia-h100").export()
    return tvm.target.Target({**hopper, "arch": f"sm_{capability}{suffix}"})


def _physical_cores() -> int:
    import psutil  # type: ignore[import-untyped]  # only CPU targets need it

    return psutil.cpu_count(logical=False) or 1
