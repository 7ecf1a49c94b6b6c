"""Learners by name, bound to the columns of a feature table."""

from collections.abc import Callable, Mapping, Sequence

from costmodel.errors import CostModelError
from costmodel.features import Column
from costmodel.learners import (
    KernelRidge,
    NearestTask,
    RandomLearner,
    RidgeLearner,
    ScaledFromWhole,
    WeightedConsensus,
    XGBoostLearner,
)
from costmodel.transfer._base import TransferModel
from costmodel.transfer._residual import Residual
from costmodel.transfer._ridge_on_sources import RidgeOnSources

Factory = Callable[[Sequence[Column], int], TransferModel]


def task_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Positions of the columns that are constant within a task."""
    return tuple(i for i, column in enumerate(columns) if column.group in ("workload", "platform"))


def _roofline(columns: Sequence[Column]) -> int:
    return [column.name for column in columns].index("log2_roofline_s")


# What a kernel and a device are known again by, on any number of SMs, besides workload and config.
_SAME_ON_ALL_BUDGETS = (
    "log2_bandwidth",
    "log2_l2",
    "launches",
    "log2_load_redundancy",
    "log2_store_redundancy",
    "log2_extra_flops",
)


def _scaled_from_whole(columns: Sequence[Column], seed: int) -> TransferModel:
    names = [column.name for column in columns]
    kernel = tuple(
        i
        for i, column in enumerate(columns)
        if column.group in ("workload", "config") or column.name in _SAME_ON_ALL_BUDGETS
    )
    return Residual(
        ScaledFromWhole(
            XGBoostLearner(_roofline(columns), seed=seed),
            XGBoostLearner(seed=seed, rounds=300, depth=7, learning_rate=0.08),
            kernel,
            names.index("log2_sms_granted"),
        )
    )


# Each takes the columns of a feature table and a seed, and gives an unfitted model.
LEARNERS: Mapping[str, Factory] = {
    "random": lambda _columns, seed: Residual(RandomLearner(seed)),
    "nearest-task": lambda columns, _seed: Residual(NearestTask(task_columns(columns))),
    "consensus": lambda columns, _seed: Residual(WeightedConsensus(task_columns(columns))),
    "ridge": lambda _columns, _seed: Residual(RidgeLearner()),
    "ridge-on-sources": lambda columns, _seed: RidgeOnSources(task_columns(columns)),
    "kernel-ridge": lambda columns, seed: Residual(KernelRidge(_roofline(columns), seed=seed)),
    "scaled-from-whole": _scaled_from_whole,
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
