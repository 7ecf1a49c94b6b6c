"""A search from nothing as if it were alone, while a transfer model measures in between."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners._base import Prediction
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer.models._quantiles import std_of

# Scores are minus log latencies, which are never so far apart.
_APART = 1000.0


class Stage(NamedTuple):
    """Knowledge of a search that goes on alone until it comes to something that another measured.

    Attributes:
        predictor: Proposes by its score.
        bar: Best score among what only the other measured; -inf if that is nothing.
        known: Positions of what the predictor knows.
    """

    predictor: Predictor
    bar: float
    known: list[int]


class Alone:
    """Scores candidates in the order in which a search without the other's measurements would come to them.

    That search knows what it chose itself. Where its next choice would be one that the other has measured, it
    takes over that latency for nothing and chooses anew: each such case is a further stage. A candidate is
    scored at the first stage at which it is no worse than what the other measured, so that it does not matter
    which candidates are asked for together.

    Args:
        stages: One or more, of which the last has no bar.
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        self.stages = stages

    @classmethod
    def after(
        cls, model: TransferModel, X: FloatArray, y: FloatArray, by_others: NDArray[np.bool_]
    ) -> "Alone":
        """The search of a model by itself, told of measurements of which some are another's.

        Args:
            model: Proposes what this search measures.
            X: ``(m, d)`` measured candidates, in the order in which they were measured.
            y: ``(m,)`` their latencies in seconds; inf for a config that failed.
            by_others: ``(m,)`` whether each was the other's choice.
        """
        known, others = list[int](), list[int]()
        for at, by_other in enumerate(by_others):
            if by_other:
                others.append(at)
                continue
            if others:
                known = _reached(_stages(model, X, y, known, others), X[at : at + 1]).known
                others = [other for other in others if other not in known]
            known = [*known, at]
        return cls(list(_stages(model, X, y, known, others)))

    def predict(self, X: FloatArray) -> Prediction:
        """Scores; those of an earlier stage are above all of a later one. No latency."""
        score = np.full(len(X), -np.inf)
        for before_last, stage in zip(range(len(self.stages))[::-1], self.stages, strict=True):
            found = stage.predictor.predict(X).score
            reached = np.isneginf(score) & (found >= stage.bar)
            score[reached] = found[reached] + _APART * before_last
        return Prediction(score)


def _stages(
    model: TransferModel, X: FloatArray, y: FloatArray, known: Sequence[int], others: Sequence[int]
) -> Iterator[Stage]:
    """The stages from what is known on, each of which takes over one more of the others' measurements."""
    known, others = list(known), list(others)
    while others:
        predictor = model.propose(X[known], y[known])
        score = predictor.predict(X[others]).score
        yield Stage(predictor, float(score.max()), known)
        known = [*known, others.pop(int(np.argmax(score)))]
    yield Stage(model.propose(X[known], y[known]), -np.inf, known)


def _reached(stages: Iterator[Stage], row: FloatArray) -> Stage:
    """The stage at which a row would be chosen."""
    return next(stage for stage in stages if stage.predictor.predict(row).score[0] >= stage.bar)


def transfer_turns(n: int, allowed: float) -> NDArray[np.bool_]:
    """``(n,)`` whether each measurement of a search is the transfer model's choice.

    As many are, and as early, as leave the fallback's k-th choice at or before measurement ``allowed * k``,
    for each k.

    Args:
        n: Measurements.
        allowed: Most measurements relative to the fallback's own.
    """
    own = np.arange(1, n + 1)
    # The small number lets a quarter of four be one.
    at = own - 1 + np.floor((allowed - 1.0) * own + 1e-9).astype(int)
    transferred = np.ones(n, dtype=np.bool_)
    transferred[at[at < n]] = False
    return transferred


class Proposal:
    """A proposal of what to measure next, beside what is predicted.

    Args:
        proposer: Gives the score.
        predictor: Gives latency and std.
    """

    def __init__(self, proposer: Predictor, predictor: Predictor) -> None:
        self.proposer = proposer
        self.predictor = predictor

    def predict(self, X: FloatArray) -> Prediction:
        """The proposer's score and the predictor's latency."""
        return Prediction(self.proposer.predict(X).score, self.predictor.predict(X).latency_s)

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` the predictor's std."""
        return std_of(self.predictor, X)
