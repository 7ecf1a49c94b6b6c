"""A dataset as learners see it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.features import FeatureTable, extract_in_chunks
from costmodel.transfer._base import TransferModel

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.dataset import Dataset


@dataclass(frozen=True)
class LearningRows:
    """Features, latencies and tasks, row by row.

    Attributes:
        rows: ``Dataset.rows``.
        table: Features of each row.
        latency_s: ``(n,)`` seconds; inf for failures.
        task_ids: ``(n,)`` names.
    """

    rows: "pd.DataFrame"
    table: FeatureTable
    latency_s: FloatArray
    task_ids: TaskIds

    @classmethod
    def of(cls, dataset: "Dataset") -> "LearningRows":
        """Extract the features of every row."""
        rows = dataset.rows
        candidates = [dataset.candidates[i] for i in rows["candidate"]]
        table = extract_in_chunks(candidates, [dataset.platforms[i] for i in rows["platform"]])
        return cls(rows, table, rows["latency_s"].to_numpy(dtype=np.float64), rows["task"].to_numpy())

    def fit(self, model: TransferModel, at: NDArray[np.intp]) -> TransferModel:
        """Fit a model to the rows at these positions."""
        return model.fit(self.table.values[at], self.latency_s[at], self.task_ids[at])
