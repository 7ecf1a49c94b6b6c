"""Learners by name, bound to the columns of a feature table."""

from collections.abc import Callable, Mapping, Sequence

from costmodel.errors import CostModelError
from costmodel.features import Column, Group
from costmodel.learners import (
    AnalyticPrior,
    KernelRidge,
    MultitaskGaussianProcess,
    MultitaskNetwork,
    NearestTask,
    RandomForestLearner,
    RandomLearner,
    RidgeLearner,
    ScaledFromWhole,
    Stack,
    WeightedConsensus,
    XGBoostLearner,
    XGBoostRanker,
)
from costmodel.transfer._base import StorableModel
from costmodel.transfer.models import FromScratch, Residual, RidgeOnSources, SourceMixture
from costmodel.transfer.wrappers import Conformal, Guarded

Factory = Callable[[Sequence[Column], int], StorableModel]


# Columns of group "launch" that are the same on every platform: the kernel's own, not how it fits the SMs.
_KERNEL_COLUMNS = (
    "log2_blocks",
    "log2_threads_per_block",
    "log2_vthreads",
    "log2_shared_bytes",
    "log2_local_bytes",
    "log2_flops_per_thread",
    "vector_bytes",
    "log2_unroll_steps",
    "launches",
    "log2_load_redundancy",
    "log2_store_redundancy",
    "log2_extra_flops",
)
# What a kernel and a device are known again by, on any number of SMs, besides workload and config.
_SAME_ON_ALL_BUDGETS = (
    "log2_bandwidth",
    "log2_l2",
    "launches",
    "log2_load_redundancy",
    "log2_store_redundancy",
    "log2_extra_flops",
)
# Columns of group "platform" that are the same for every workload.
_MACHINE_COLUMNS = ("log2_sms_granted", "log2_bandwidth", "log2_l2", "is_whole_device")
# Columns of group "platform" by which intervals must hold: SM budget and device, whatever the workload.
_BUCKET_COLUMNS = ("log2_sms_granted", "device_share", "log2_bandwidth")
# What an SM holds: the same for all devices of one architecture, and for few of different ones.
_ARCHITECTURE_COLUMNS = ("log2_shared_per_sm", "log2_registers_per_sm", "log2_max_threads_per_sm")
_COMPONENT_COLUMNS = (
    "log2_compute_over_roofline",
    "log2_operands_over_roofline",
    "log2_l2_over_roofline",
    "log2_latency_over_roofline",
    "log2_memory_over_roofline",
)


def task_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Positions of the columns that are constant within a task."""
    return _of_groups(columns, "workload", "platform")


def config_columns(columns: Sequence[Column]) -> tuple[int, ...]:
    """Positions of the columns that tell kernels apart and are the same on every platform."""
    return tuple(sorted(_of_groups(columns, "config") + _named(columns, _KERNEL_COLUMNS)))


def _of_groups(columns: Sequence[Column], *groups: Group) -> tuple[int, ...]:
    return tuple(i for i, column in enumerate(columns) if column.group in groups)


def _named(columns: Sequence[Column], names: Sequence[str]) -> tuple[int, ...]:
    """Positions of the columns with these names, as far as they are there."""
    return tuple(i for i, column in enumerate(columns) if column.name in names)


def _roofline(columns: Sequence[Column]) -> int:
    return [column.name for column in columns].index("log2_roofline_s")


def _roofline_if_known(columns: Sequence[Column]) -> int | None:
    return _roofline(columns) if any(column.name == "log2_roofline_s" for column in columns) else None


def _nearest_task(columns: Sequence[Column], _seed: int) -> StorableModel:
    return Residual(NearestTask(task_columns(columns), baseline_column=_roofline(columns)))


def _consensus(columns: Sequence[Column], _seed: int) -> StorableModel:
    return Residual(WeightedConsensus(task_columns(columns), baseline_column=_roofline(columns)))


def _analytic(columns: Sequence[Column], _seed: int) -> StorableModel:
    launches = _named(columns, ("launches",))[0]
    return Residual(AnalyticPrior(_roofline(columns), _named(columns, _COMPONENT_COLUMNS), launches))


def _network(columns: Sequence[Column], seed: int) -> StorableModel:
    return Residual(MultitaskNetwork(_named(columns, _MACHINE_COLUMNS), _roofline(columns), seed=seed))


def _stack(columns: Sequence[Column], seed: int) -> StorableModel:
    """On sm-budgets ranker and kernel ridge together choose better than any alone; trees time best."""
    bound = _roofline(columns)
    learners = (KernelRidge(bound, seed=seed), XGBoostLearner(bound, seed=seed), XGBoostRanker(seed=seed))
    return Residual(Stack(learners, _of_groups(columns, "workload")))


def _scaled_from_whole(columns: Sequence[Column], seed: int) -> StorableModel:
    kernel = _of_groups(columns, "workload", "config") + _named(columns, _SAME_ON_ALL_BUDGETS)
    return Residual(
        ScaledFromWhole(
            XGBoostLearner(_roofline(columns), seed=seed),
            XGBoostLearner(seed=seed, rounds=300, depth=7, learning_rate=0.08),
            tuple(sorted(kernel)),
            _named(columns, ("log2_sms_granted",))[0],
        )
    )


# Each takes the columns of a feature table and a seed, and gives an unfitted model.
LEARNERS: Mapping[str, Factory] = {
    "random": lambda _columns, seed: Residual(RandomLearner(seed)),
    "nearest-task": _nearest_task,
    "consensus": _consensus,
    "ridge": lambda _columns, _seed: Residual(RidgeLearner()),
    "ridge-on-sources": lambda columns, _seed: RidgeOnSources(
        task_columns(columns), config_columns=config_columns(columns)
    ),
    "source-mixture": lambda columns, _seed: SourceMixture(
        task_columns(columns),
        _named(columns, _ARCHITECTURE_COLUMNS),
        config_columns=config_columns(columns),
    ),
    "analytic": _analytic,
    "kernel-ridge": lambda columns, seed: Residual(KernelRidge(_roofline(columns), seed=seed)),
    "random-forest": lambda columns, seed: Residual(RandomForestLearner(_roofline(columns), seed=seed)),
    "scaled-from-whole": _scaled_from_whole,
    "xgboost": lambda columns, seed: Residual(XGBoostLearner(_roofline(columns), seed=seed)),
    "xgboost-rank": lambda _columns, seed: Residual(XGBoostRanker(seed=seed)),
    "multitask-gp": lambda columns, seed: Residual(
        MultitaskGaussianProcess(task_columns(columns), _roofline(columns), seed=seed)
    ),
    "network": _network,
    "stack": _stack,
}


# Each takes a model, the columns and a seed, and gives the model with something around it.
WRAPPERS: Mapping[str, Callable[[StorableModel, Sequence[Column], int], StorableModel]] = {
    "intervals": lambda model, columns, seed: Conformal(
        model, _of_groups(columns, "workload"), _named(columns, _BUCKET_COLUMNS), seed=seed
    ),
    "guard": lambda model, columns, _seed: Guarded(
        model, FromScratch(), _of_groups(columns, "workload"), _roofline_if_known(columns)
    ),
}


def make_model(name: str, columns: Sequence[Column], seed: int = 0) -> StorableModel:
    """An unfitted model for feature tables with these columns.

    Args:
        name: A learner's, and behind it any ``WRAPPERS``, each with a plus: ``kernel-ridge+guard+intervals``.
        columns: Columns of the feature table.
        seed: Seed of all random choices.

    Raises:
        CostModelError: No learner or wrapper has this name.
    """
    learner, *wrappers = name.split("+")
    if learner not in LEARNERS or not set(wrappers) <= set(WRAPPERS):
        raise CostModelError(
            f"A learner must be one of {', '.join(LEARNERS)}, behind which may stand "
            f"{' or '.join('+' + wrapper for wrapper in WRAPPERS)}, but got {name!r}."
        )
    model = LEARNERS[learner](columns, seed)
    for wrapper in wrappers:
        model = WRAPPERS[wrapper](model, columns, seed)
    return model
