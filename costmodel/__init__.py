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
from typing import TYPE_CHECKING, Any

from costmodel.version import __version__

if TYPE_CHECKING:
    from costmodel.collector import CpuRunner as CpuRunner
    from costmodel.collector import CudaRunner as CudaRunner
    from costmodel.collector import ReplayRunner as ReplayRunner
    from costmodel.dataset import Dataset as Dataset
    from costmodel.dataset import build_dataset as build_dataset
    from costmodel.dataset import load_dataset as load_dataset
    from costmodel.errors import CostModelError as CostModelError
    from costmodel.evaluation import EvaluationReport as EvaluationReport
    from costmodel.kernels.cuda import CudaFamily as CudaFamily
    from costmodel.kernels.triton import TritonFamily as TritonFamily
    from costmodel.learners import Learner as Learner
    from costmodel.records import Device as Device
    from costmodel.records import Platform as Platform
    from costmodel.records import Workload as Workload
    from costmodel.records import hypothetical as hypothetical
    from costmodel.search import DispatchTable as DispatchTable
    from costmodel.search import ModelSampler as ModelSampler
    from costmodel.search import load_dispatch_table as load_dispatch_table
    from costmodel.spaces import DeclaredSpace as DeclaredSpace
    from costmodel.spaces import KernelSpace as KernelSpace
    from costmodel.spaces import Pool as Pool
    from costmodel.transfer import Model as Model
    from costmodel.transfer import load_model as load_model
    from costmodel.tuning import TuneResult as TuneResult
    from costmodel.tuning import collect as collect
    from costmodel.tuning import evaluate as evaluate
    from costmodel.tuning import train as train
    from costmodel.tuning import tune as tune
    from costmodel.workloads import catalogue as catalogue

# Public names by the package that defines them; each is loaded on first use.
_PUBLIC = {
    "collector": ("CpuRunner", "CudaRunner", "ReplayRunner"),
    "dataset": ("Dataset", "build_dataset", "load_dataset"),
    "errors": ("CostModelError",),
    "evaluation": ("EvaluationReport",),
    "kernels.cuda": ("CudaFamily",),
    "kernels.triton": ("TritonFamily",),
    "learners": ("Learner",),
    "records": ("Device", "Platform", "Workload", "hypothetical"),
    "search": ("DispatchTable", "ModelSampler", "load_dispatch_table"),
    "spaces": ("DeclaredSpace", "KernelSpace", "Pool"),
    "transfer": ("Model", "load_model"),
    "tuning": ("TuneResult", "collect", "evaluate", "train", "tune"),
    "workloads": ("catalogue",),
}
_PACKAGE_OF = {name: package for package, names in _PUBLIC.items() for name in names}

__all__ = ["__version__", *_PACKAGE_OF]  # noqa: PLE0604 (they are texts)


def __getattr__(name: str) -> Any:
    """Load a public name from the package that defines it (PEP 562)."""
    if name not in _PACKAGE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PACKAGE_OF[name]}"), name)


def __dir__() -> list[str]:
    """List the public names, for completion."""
    return sorted(__all__)
