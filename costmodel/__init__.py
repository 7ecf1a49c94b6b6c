"""A transfer-learning cost model for kernel autotuning on shared GPUs.

The names below are the public entry points. Each is loaded on first use, so importing this package takes
milliseconds and loads none of its heavy dependencies.

Example:
    >>> import costmodel
    >>> result = costmodel.tune("matmul-m16-n1024-k1024", sms=32, trials=4)
    >>> result.best.latency_s[0] < 1e-3
    True
"""

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import lazy_loader

_load, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

# Names that were here until 0.3, by the package that has them now; they go in the next release.
_MOVED = {
    "CpuRunner": "costmodel.collector",
    "CudaRunner": "costmodel.collector",
    "EvaluationReport": "costmodel.evaluation",
    "KernelSpace": "costmodel.search",
    "Pool": "costmodel.search",
    "ReplayRunner": "costmodel.collector",
}


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it, or a package by its name (PEP 562)."""
    if name in _MOVED:
        warnings.warn(f"costmodel.{name} is now {_MOVED[name]}.{name}.", DeprecationWarning, stacklevel=2)
        return getattr(import_module(_MOVED[name]), name)
    if name in __all__ or name.startswith("_") or not find_spec(f"costmodel.{name}"):
        return _load(name)
    return import_module(f"costmodel.{name}")
