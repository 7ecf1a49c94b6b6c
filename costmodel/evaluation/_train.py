"""Train one model on a dataset, with what has to be kept beside it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset import Dataset
from costmodel.errors import CostModelError
from costmodel.evaluation._evaluate import ModelFactory, judge_tasks
from costmodel.evaluation._rows import LearningRows
from costmodel.transfer import TransferModel


@dataclass(frozen=True)
class Trained:
    """A fitted model and what it has seen.

    Attributes:
        model: The model.
        columns: Names of the feature columns that it expects, in order.
        workloads: Names of the workloads that it learned from.
        tasks: Tasks that it learned from.
        rows: Measured (candidate, platform) pairs that it learned from.
        held_out_tasks: Results on the workloads held out, as in ``Report.tasks``; empty if none were.
    """

    model: TransferModel
    columns: tuple[str, ...]
    workloads: tuple[str, ...]
    tasks: int
    rows: int
    held_out_tasks: pd.DataFrame

    def metrics(self) -> dict[str, Any]:
        """Mean Score@k and median latency error over the tasks held out; empty if none were."""
        if self.held_out_tasks.empty:
            return {}
        scores = [name for name in self.held_out_tasks if str(name).startswith("score_at_")]
        means = {str(name): float(self.held_out_tasks[name].mean()) for name in scores}
        return {**means, "latency_error": float(self.held_out_tasks["latency_error"].median())}


def train(dataset: Dataset, make: ModelFactory, *, hold_out: Sequence[str] = ()) -> Trained:
    """Fit a model to every workload but those held out, and judge it zero-shot on these.

    Raises:
        CostModelError: A workload to hold out is not in the dataset, or none is left to learn from.
    """
    data = LearningRows.of(dataset)
    known = data.rows["workload"].unique()
    missing = sorted(set(hold_out) - set(known))
    if missing or not set(known) - set(hold_out):
        raise CostModelError(
            f"Workloads held out must be some of those in the dataset, and leave one to learn from, but got "
            f"{', '.join(missing or hold_out)}. The dataset has {', '.join(sorted(known))}."
        )
    out = data.rows["workload"].isin(list(hold_out)).to_numpy()
    model = data.fit(make(data.table.columns), np.flatnonzero(~out))
    held_out = (
        judge_tasks("held out", model.predict(data.table.values[out]), data.rows[out]) if hold_out else ()
    )
    return Trained(
        model=model,
        columns=tuple(column.name for column in data.table.columns),
        workloads=tuple(name for name in known if name not in hold_out),
        tasks=data.rows.loc[~out, "task"].nunique(),
        rows=int((~out).sum()),
        held_out_tasks=pd.DataFrame(list(held_out)),
    )
