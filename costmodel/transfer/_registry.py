"""Learners by name, bound to the columns of a feature table."""

from collections.abc import Callable, Mapping, Sequence

from costmodel.errors import CostModelError
from costmodel.features import Column
from costmodel.learners import (
    KernelRidge,
    NearestTask,
    RandomLearner,
    RidgeLearner,
    WeightedConsensus,
    XGBoostLearner,
)
from costmodel.transfer._base import TransferModel
from costmodel.transfer._conformal import Conformal
from costmodel.transfer._guard import Guarded
from costmodel.transfer._residual import Residual
from costmodel.transfer._ridge_on_sources import RidgeOnSources
from costmodel.transfer._scratch import FromScratch

Factory = Callable[[Sequence[Column], int], TransferModel]


def task_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Positions of the columns that are constant within a task."""
    return tuple(i for i, column in enumerate(columns) if column.group in ("workload", "platform"))


def workload_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Positions of the columns that tell workloads apart."""
    return tuple(i for i, column in enumerate(columns) if column.group == "workload")


def bucket_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Positions of the columns by which intervals must hold: SM budget and device, whatever the workload."""
    names = ("log2_sms_granted", "device_share", "log2_bandwidth")
    return tuple(i for i, column in enumerate(columns) if column.name in names)


def _kernel_ridge(columns: Sequence[Column], seed: int) -> Residual:
    return Residual(KernelRidge(_roofline(columns), seed=seed))


def _roofline(columns: Sequence[Column]) -> int:
    return [column.name for column in columns].index("log2_roofline_s")


# Each takes the columns of a feature table and a seed, and gives an unfitted model.
LEARNERS: Mapping[str, Factory] = {
    "random": lambda _columns, seed: Residual(RandomLearner(seed)),
    "nearest-task": lambda columns, _seed: Residual(NearestTask(task_columns(columns))),
    "consensus": lambda columns, _seed: Residual(WeightedConsensus(task_columns(columns))),
    "ridge": lambda _columns, _seed: Residual(RidgeLearner()),
    "ridge-on-sources": lambda columns, _seed: RidgeOnSources(task_columns(columns)),
    "kernel-ridge": _kernel_ridge,
    "kernel-ridge-intervals": lambda columns, seed: Conformal(
        _kernel_ridge(columns, seed), workload_columns(columns), bucket_columns(columns), seed=seed
    ),
    "guarded": lambda columns, seed: Guarded(
        _kernel_ridge(columns, seed), FromScratch(), workload_columns(columns)
    ),
    "xgboost": lambda columns, seed: Residual(XGBoostLearner(_roofline(columns), seed=seed)),
}


def make_model(name: str, columns: Sequence[Column], seed: int = 0) -> TransferModel:
    """An unfitted model for feature tables with these columns.

    Raises:
        CostModelError: No learner has this name.
    """
    if name not in LEARNERS:
        raise CostModelError(f"A learner must be one of {', '.join(LEARNERS)}, but got {name!r}.")
    return LEARNERS[name](columns, seed)
