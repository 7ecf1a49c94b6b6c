"""Keeps TVM from importing its tensor intrinsics where no schedule uses them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

_MODULE = "tvm.s_tir.tensor_intrin"


@contextmanager
def without_tensor_intrinsics() -> Iterator[None]:
    """Let ``import tvm.s_tir.tensor_intrin`` inside the block do nothing.

    ``TuneContext`` imports that module for its side effect, the registration of intrinsics that only
    tensorised schedules use. It parses TVMScript for 10 to 90 s in every new process.
    """
    if _MODULE in sys.modules:
        yield
        return
    sys.modules[_MODULE] = ModuleType(_MODULE)
    try:
        yield
    finally:
        del sys.modules[_MODULE]
