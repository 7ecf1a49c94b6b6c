"""A dataset as arrays for learners."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from costmodel.arrays import FloatArray, Positions, TaskIds
from costmodel.features._extract import KnownFeatures, extract_in_chunks
from costmodel.features._table import FeatureTable
from costmodel.learners._base import Prediction
from costmodel.learners._training import canonical_order
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform
from costmodel.transfer._base import Predictor, TransferModel

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.dataset.table._dataset import Dataset
    from costmodel.kernels._machine_code import MachineCode
    from costmodel.kernels._read_facts import ReadFacts

_ROWS = 2**17  # at once, whose features take 0.1 GB, and several times that while they are made


@dataclass(frozen=True)
class LearningRows:
    """Features, latencies and tasks, row by row.

    Attributes:
        rows: ``Dataset.rows``.
        features: Features of each row.
        latency_s: ``(n,)`` seconds; inf for failures.
        task_ids: ``(n,)`` names.
    """

    rows: "pd.DataFrame"
    features: KnownFeatures
    latency_s: FloatArray
    task_ids: TaskIds

    @classmethod
    def of(
        cls,
        dataset: "Dataset",
        at_once: int = _ROWS,
        read: "Mapping[str, ReadFacts] | None" = None,
        compiled: "Mapping[str, MachineCode] | None" = None,
    ) -> "LearningRows":
        """Extract the features of every row, ``at_once`` rows at a time.

        Args:
            dataset: The dataset.
            at_once: Rows at a time.
            read: What was read of kernels, by candidate id; see ``extract``.
            compiled: What was made of them, likewise.
        """
        rows = dataset.rows
        features = extract_in_chunks(_chunks(dataset, at_once), read, compiled)
        return cls(rows, features, rows["latency_s"].to_numpy(dtype=np.float64), rows["task"].to_numpy())

    @cached_property
    def table(self) -> FeatureTable:
        """The features of all rows in one array."""
        return self.features.table

    def fit(self, model: TransferModel, at: Positions) -> TransferModel:
        """Fit a model to the rows at these positions."""
        taken = np.zeros(len(self.rows), dtype=np.bool_)
        taken[at] = True
        at = self._order[taken[self._order]]
        return model.fit(self.features[at], self.latency_s[at], self.task_ids[at])

    def predict(self, model: Predictor, at: Positions, at_once: int = _ROWS) -> Prediction:
        """Predict the rows at these positions, ``at_once`` rows at a time."""
        parts = np.split(at, range(at_once, len(at), at_once))
        return _joined([model.predict(self.features[part]) for part in parts])

    @cached_property
    def _order(self) -> Positions:
        """``(n,)`` positions in the order that learners bring rows into: those in it are not copied."""
        tasks = np.unique(self.task_ids, return_inverse=True)[1]
        return canonical_order(self.features, self.latency_s, tasks)


def _chunks(dataset: "Dataset", at_once: int) -> Iterator[tuple[Sequence[Candidate], Sequence[Platform]]]:
    """Candidates and platforms of so many rows at a time."""
    candidate, platform = (dataset.rows[name].to_numpy() for name in ("candidate", "platform"))
    for start in range(0, len(candidate), at_once):
        chunk = slice(start, start + at_once)
        distinct, place = np.unique(candidate[chunk], return_inverse=True)
        made = dataset.columns.made(distinct)
        yield [made[i] for i in place], [dataset.platforms[i] for i in platform[chunk]]


def _joined(parts: Sequence[Prediction]) -> Prediction:
    """Join what is said of some rows, and then of others."""
    if len(parts) == 1:
        return parts[0]
    found = {field.name: [getattr(part, field.name) for part in parts] for field in fields(Prediction)}
    return Prediction(**{name: np.concatenate(each) for name, each in found.items() if each[0] is not None})
