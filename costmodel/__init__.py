"""A transfer-learning cost model for kernel autotuning on shared GPUs.

The names below are the public entry points. Each is loaded on first use, so importing this package takes
milliseconds and loads none of its heavy dependencies.

Example:
    >>> import costmodel
    >>> result = costmodel.tune("matmul-m16-n1024-k1024", sms=32, trials=4)
    >>> result.best.latency_s[0] < 1e-3
    True
"""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import lazy_loader

from costmodel.former import answer_former, find_former_modules

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
find_former_modules()


def _load_package(name: str) -> Any:
    """Load a public name from the module that defines it, or a package by its name (PEP 562)."""
    if name in __all__ or name.startswith("_") or not find_spec(f"costmodel.{name}"):
        return _load(name)
    return import_module(f"costmodel.{name}")


__getattr__ = answer_former(__name__, _load_package)
