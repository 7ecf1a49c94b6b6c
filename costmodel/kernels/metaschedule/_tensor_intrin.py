"""TVM's tensor intrinsics: registered quickly where a schedule may use them, not at all where none does."""

import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import RLock
from types import ModuleType

_MODULE = "tvm.s_tir.tensor_intrin"
_LOCK = RLock()  # both functions change what the whole process sees, for as long as they take


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
