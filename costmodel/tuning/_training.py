"""Train one model on a dataset, with what has to be kept beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset import Dataset, SplitRecipe, make_split
from costmodel.errors import CostModelError
from costmodel.evaluation import ModelFactory, coverage, cross_validate, judge_tasks
from costmodel.transfer import LearningRows, TransferModel

_HELD_OUT = "held out"


@dataclass(frozen=True)
class Trained:
    """A fitted model and what it has seen.

    Attributes:
        model: The model.
        columns: Names of the feature columns that it expects, in order.
        workloads: Names of the workloads that it learned from.
        devices: Names of the devices that it learned from.
        platforms: Names of the platforms that it learned from: device, isolation mechanism, SMs granted.
        tasks: Tasks that it learned from.
        rows: Measured (candidate, platform) pairs that it learned from.
        held_out_tasks: Results on the workloads held out, as in ``EvaluationReport.tasks``; empty if none.
        folds: Each group of workloads that was held out in turn, of models like this one; empty if none was.
    """

    model: TransferModel
    columns: tuple[str, ...]
    workloads: tuple[str, ...]
    devices: tuple[str, ...]
    platforms: tuple[str, ...]
    tasks: int
    rows: int
    held_out_tasks: pd.DataFrame
    folds: tuple[str, ...] = ()

    def metrics(self) -> dict[str, Any]:
        """Mean Score@k, median latency error, and the interval's coverage and median width; NaN left out.

        Over the tasks held out; empty if none were.
        """
        if self.held_out_tasks.empty:
            return {}
        scores = [name for name in self.held_out_tasks if str(name).startswith("score_at_")]
        means = {str(name): float(self.held_out_tasks[name].mean()) for name in scores}
        error = float(self.held_out_tasks["latency_error"].median())
        found = coverage(self.held_out_tasks, "workload")
        intervals = {name: found[name] for name in ("coverage", "interval_width")}
        return {
            name: value
            for name, value in {**means, "latency_error": error, **intervals}.items()
            if np.isfinite(value)
        }


def train(dataset: Dataset, make: ModelFactory, *, hold_out: Sequence[str] = (), folds: int = 0) -> Trained:
    """Fit a model to every workload but those held out, and judge it zero-shot.

    Args:
        dataset: What was measured.
        make: Makes an unfitted model for a feature table's columns.
        hold_out: Names of workloads that the model is judged by and does not learn from.
        folds: Judge, instead, by every workload: of models like this one, each of which learns without one of
            so many groups of workloads. The model itself then learns from all of them.

    Raises:
        CostModelError: A workload to hold out is not in the dataset, none is left to learn from, or there are
            both workloads and folds.
    """
    if folds and hold_out:
        raise CostModelError(
            "A model must be judged by workloads held out or by folds, but both were asked for: name one."
        )
    if folds:
        return _train_judged_by_folds(dataset, make, folds)
    data = LearningRows.of(dataset)
    known = data.rows["workload"].unique()
    missing = sorted(set(hold_out) - set(known))
    if missing or not set(known) - set(hold_out):
        raise CostModelError(
            f"Workloads held out must be some of those in the dataset, and leave one to learn from, but got "
            f"{', '.join(missing or hold_out)}. The dataset has {', '.join(sorted(known))}."
        )
    out = data.rows["workload"].isin(list(hold_out)).to_numpy()
    used = data.rows.loc[~out]
    platforms = [dataset.platforms[i] for i in used["platform"].unique()]
    model = data.fit(make(data.table.columns), np.flatnonzero(~out))
    held_out = (
        judge_tasks(_HELD_OUT, model.predict(data.table.values[out]), data.rows[out]) if hold_out else ()
    )
    return Trained(
        model=model,
        columns=tuple(column.name for column in data.table.columns),
        workloads=tuple(name for name in known if name not in hold_out),
        devices=tuple(used["device"].unique()),
        platforms=tuple(platform.name for platform in platforms),
        tasks=used["task"].nunique(),
        rows=int((~out).sum()),
        held_out_tasks=pd.DataFrame(list(held_out)),
    )


def _train_judged_by_folds(dataset: Dataset, make: ModelFactory, folds: int) -> Trained:
    split = make_split(dataset, SplitRecipe("leave-one-workload-out", folds=folds))
    tasks = cross_validate(dataset, {_HELD_OUT: make}, split=split).tasks
    judged = tasks[tasks["learner"] == _HELD_OUT].reset_index(drop=True)
    names = tuple(fold.held_out for fold in split.folds)
    return replace(train(dataset, make), held_out_tasks=judged, folds=names)
