"""A registered learner as an entry: fitted to what is known, and adapted to each task that was measured."""

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.benchmark._entry import BenchEntry
from costmodel.benchmark._question import BenchQuestion
from costmodel.columns import Column
from costmodel.learners._base import Prediction
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer._make import make_model


class LearnerEntry(BenchEntry):
    """Learns what is known.

    Args:
        name: Name of the entry.
        learner: Name of the learner, as of ``make_model``.
        without: Groups of columns that it does not see.
        needs: A group of columns without which it does not answer; empty if there is none.
        only: Names of the questions that it answers; empty for all.
        made_by: See ``BenchEntry``.
        about: See ``BenchEntry``.
        seeds: See ``BenchEntry``.
    """

    def __init__(  # noqa: PLR0913 (what it is, and what it sees)
        self,
        name: str,
        learner: str,
        *,
        without: Collection[str] = (),
        needs: str = "",
        only: Collection[str] = (),
        made_by: str = "costmodel",
        about: str = "",
        seeds: int = 1,
    ) -> None:
        self.name, self.learner, self.without, self.needs = name, learner, without, needs
        self.only = only
        self.made_by, self.about, self.seeds = made_by, about, seeds
        self._fitted: dict[tuple[str, int], TransferModel] = {}

    def can_answer(self, question: BenchQuestion) -> bool:
        """Return whether it is made for the question, which has the columns that it needs.

        Learners read this package's columns of kernels, of which one is a lower bound.
        """
        groups = {column.group for column in question.columns}
        return (
            has_bound(question)
            and (not self.needs or self.needs in groups)
            and (not self.only or question.name in self.only)
        )

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Fit, adapt to each measured task, and predict."""
        seen = self._seen(question.columns)
        X, key = question.features[:, seen], (question.known_digest, seed)
        if key not in self._fitted:
            model = self.make(tuple(question.columns[i] for i in seen), seed)
            known = question.known
            self._fitted[key] = model.fit(X[known], question.latency_s[known], question.tasks[known])
        model = self._fitted[key]
        if not question.measured.size:
            return model.predict(X[question.asked])
        return predict_measured(model, question, X)

    def make(self, columns: tuple[Column, ...], seed: int) -> TransferModel:
        """Make the unfitted model."""
        return make_model(self.learner, columns, seed)

    def _seen(self, columns: tuple[Column, ...]) -> Positions:
        return np.array([i for i, column in enumerate(columns) if column.group not in self.without], np.intp)


def has_bound(question: BenchQuestion) -> bool:
    """Return whether the columns are this package's of kernels, and not of products alone."""
    return any("lower_bound" in column.tags for column in question.columns)


def predict_measured(model: TransferModel, question: BenchQuestion, X: FloatArray) -> Prediction:
    """Predict each asked task by the model after it was told what was measured of the task.

    Args:
        model: Fitted.
        question: The question.
        X: ``(n, d)`` what the model sees of its rows.
    """
    parts: list[tuple[Positions, Prediction]] = []
    for places, asked, measured in question.asked_tasks():
        ran = np.isfinite(question.latency_s[measured]).any()  # what failed alone tells no seconds
        told: Predictor = model.adapt(X[measured], question.latency_s[measured]) if ran else model
        parts.append((places, told.predict(X[asked])))
    size = len(question.asked)
    score = _spread([(at, part.score) for at, part in parts], size)
    ends = (
        None
        if any(getattr(part, name) is None for _, part in parts)
        else _spread([(at, getattr(part, name)) for at, part in parts], size)
        for name in ("latency_s", "low_s", "high_s")
    )
    return Prediction(score, *ends)


def _spread(parts: list[tuple[Positions, NDArray[np.float64]]], size: int) -> FloatArray:
    found = np.empty(size)
    for at, values in parts:
        found[at] = values
    return found
