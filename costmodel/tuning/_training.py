"""``train``: fit one model to a dataset, and evaluate it on held-out workloads."""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.arguments import check_kind, check_seed, check_texts, check_whole
from costmodel.dataset._machine_code import load_machine_code
from costmodel.dataset.splits._folds import shape_siblings
from costmodel.dataset.splits._make import SplitRecipe, make_split
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.dataset.table._records import LATENCIES
from costmodel.errors import CostModelError
from costmodel.evaluation._cross_validate import ModelFactory, cross_validate
from costmodel.evaluation._draw import plot_held_out
from costmodel.evaluation._judge import judge_tasks
from costmodel.evaluation._statistics import coverage
from costmodel.features._extract import COLUMNS
from costmodel.learners._registry import DEFAULT_LEARNER
from costmodel.tracking._items import Artifact, Item, Metric, Note, Table, Tag, tell_answer
from costmodel.transfer._base import TransferModel
from costmodel.transfer._make import make_model
from costmodel.transfer._rows import LearningRows
from costmodel.transfer._store import ModelMetadata, software_versions
from costmodel.transfer.prediction._model import Model

if TYPE_CHECKING:
    import pandas as pd


_HELD_OUT = "held out"


def train(
    dataset: DatasetLike | None = None,
    learner: str | ModelFactory = DEFAULT_LEARNER,
    *,
    hold_out: str | Sequence[str] = (),
    folds: int = 0,
    seed: int = 0,
) -> Model:
    """Train a model on a dataset, and evaluate it zero-shot on held-out workloads.

    Args:
        dataset: Measurements to learn from: a dataset, the name of a shipped one, or a path. Default: the
            first shipped dataset.
        learner: Name of a learner (see ``make_model``), or a function that makes an unfitted model for the
            columns of a feature table.
        hold_out: Names of workloads to evaluate the model on. The model does not learn from them, nor from
            workloads of the same shape with another dtype, layout or epilogue.
        folds: Number of groups of workloads for cross-validation, instead of ``hold_out``. Each group is
            evaluated by a model trained on the other groups; the returned model learns from all workloads.
            Default: 0, no cross-validation.
        seed: Seed of the learner's random choices.

    Returns:
        The fitted model with its metadata and, if any task was evaluated, the results.

    Raises:
        CostModelError: The learner is unknown, a held-out workload is not in the dataset, no workload is left
            to learn from, or both ``hold_out`` and ``folds`` are given.

    Example:
        >>> model = train("h100-sm-budgets", "ridge", hold_out=["matmul-m128-n768-k3072"])
        >>> model.metadata.rows, sorted(model.metadata.metrics)[:2]
        (18426, ['latency_error', 'score_at_1'])
    """
    check_seed(seed)
    check_whole("folds", folds)
    hold_out = check_texts("hold_out", hold_out)
    check_kind("learner", learner, str | Callable, "the name of a learner, or a function that makes a model")
    if folds and hold_out:
        raise CostModelError(
            "A model must be evaluated on held-out workloads or by folds, but got both. Choose one."
        )
    make = partial(make_model, learner, seed=seed) if isinstance(learner, str) else learner
    make(COLUMNS)  # refuses an unknown name before measurements are read
    data = load_dataset(dataset, facts=LATENCIES)
    rows = LearningRows.of(data)
    out, learned = _held_out(rows, hold_out)
    model = rows.fit(make(rows.features.columns), np.flatnonzero(learned))
    tasks, names = _judge_folds(data, make, folds) if folds else (_judge(model, rows, out), ())
    metadata = msgspec.structs.replace(
        _learned_from(data, rows, learned),
        learner=learner if isinstance(learner, str) else type(model).__name__,
        seed=seed,
        held_out=tuple(hold_out),
        folds=names,
        metrics=_metrics(tasks),
        versions=software_versions(),
    )
    return Model(model, metadata, held_out_tasks=tasks if len(tasks) else None)


def train_compiled(data: Dataset, learner: str, *, seed: int = 0) -> Model:
    """Train a model that reads what a compiler made of kernels, on all of a dataset of which that is known.

    Args:
        data: Measurements of kernels whose machine code was counted.
        learner: Name of a learner (see ``make_model``).
        seed: Seed of the learner's random choices.

    Raises:
        CostModelError: Nothing is known of the machine code of the dataset's kernels.
    """
    code = load_machine_code(data)
    rows = LearningRows.of(data, compiled=code)
    known = np.array([each in code for each in data.columns.ids])[rows.rows["candidate"].to_numpy()]
    model = rows.fit(make_model(learner, rows.features.columns, seed), np.flatnonzero(known))
    learned = _learned_from(data, rows, known)
    return Model(
        model, msgspec.structs.replace(learned, learner=learner, seed=seed, versions=software_versions())
    )


def _held_out(rows: LearningRows, names: Sequence[str]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """``(n,)`` whether each row is of a workload with one of these names, and whether it is learned from."""
    workload = rows.rows["workload"]
    siblings = shape_siblings(workload.unique())
    missing = sorted(set(names) - set(siblings))
    out = {sibling for name in names for sibling in siblings.get(name, ())}
    if missing or len(out) == len(siblings):
        raise CostModelError(
            "Held-out workloads must be in the dataset and leave another shape to learn from, but got "
            f"{', '.join(missing or names)}. The dataset has {', '.join(sorted(siblings))}."
        )
    return workload.isin(list(names)).to_numpy(), ~workload.isin(list(out)).to_numpy()


def _judge(model: TransferModel, rows: LearningRows, out: NDArray[np.bool_]) -> "pd.DataFrame":
    """Results of a model on the tasks of the rows held out; no row where there are none."""
    import pandas as pd

    if not out.any():
        return pd.DataFrame()
    prediction = rows.predict(model, np.flatnonzero(out))
    return pd.DataFrame(list(judge_tasks(_HELD_OUT, prediction, rows.rows[out])))


def _judge_folds(data: Dataset, make: ModelFactory, folds: int) -> "tuple[pd.DataFrame, tuple[str, ...]]":
    """Results on all tasks, each of a model that did not learn from its workload, and what each fold is."""
    split = make_split(data, SplitRecipe("leave-one-workload-out", folds=folds))
    tasks = cross_validate(data, {_HELD_OUT: make}, split=split).tasks
    judged = tasks[tasks["learner"] == _HELD_OUT].reset_index(drop=True)
    return judged, tuple(fold.held_out for fold in split.folds)


def _learned_from(data: Dataset, rows: LearningRows, at: NDArray[np.bool_]) -> ModelMetadata:
    """Describe what a model learned from these rows, in order of appearance."""
    used = rows.rows.loc[at]
    platforms = [data.platforms[i] for i in used["platform"].unique()]
    devices = {platform.device.name: platform.device for platform in platforms}
    return ModelMetadata(
        dataset=data.name,
        dataset_sha256=data.sha256,
        devices=tuple(devices.values()),
        platforms=tuple(platform.name for platform in platforms),
        workloads=tuple(used["workload"].unique()),
        tasks=used["task"].nunique(),
        rows=len(used),
        columns=tuple(column.name for column in rows.features.columns),
    )


def _metrics(tasks: "pd.DataFrame") -> dict[str, float]:
    """Compute mean Score@k, median latency error, and interval coverage and median width, without NaN.

    Args:
        tasks: Rows as from ``judge_tasks``. Without rows there are no metrics.
    """
    if tasks.empty:
        return {}
    names = [str(name) for name in tasks if str(name).startswith("score_at_")]
    found = coverage(tasks, "workload")
    metrics = {
        **{name: float(tasks[name].mean()) for name in names},
        "latency_error": float(tasks["latency_error"].median()),
        "coverage": found["coverage"],
        "interval_width": found["interval_width"],
    }
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def describe_training(model: Model) -> Iterator[Item]:
    """What a model learned from, how good it is on what was held out, and those results by task."""
    about, tasks = model.metadata, model.held_out_tasks
    devices = ", ".join(device.name for device in about.devices)
    yield Note(
        f"Learned from {about.rows:,} measurements of {len(about.workloads)} workloads ({about.tasks} tasks) "
        f"on {devices}; judged by {0 if tasks is None else len(tasks)} tasks held out. "
        "`mlflow.pyfunc.load_model` loads the model; `costmodel.transfer.kernel_frame` makes what it "
        "predicts from."
    )
    yield Metric("learned/measurements", about.rows)
    yield Metric("learned/tasks", about.tasks)
    yield Metric("learned/workloads", len(about.workloads))
    yield from (Metric(name, value) for name, value in about.metrics.items())
    yield Tag("devices", devices)
    yield from tell_answer("score_at_1", about.metrics.get("score_at_1", math.nan))
    yield Artifact.of_text("columns.txt", "\n".join(about.columns) + "\n")
    if tasks is not None:
        yield Table("tables/tasks.csv", tasks)
        yield Artifact("plots/held_out.png", partial(plot_held_out, tasks))
