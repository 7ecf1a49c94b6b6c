"""Two proposers that take turns in one search."""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners import Prediction
from costmodel.transfer._base import Predictor
from costmodel.transfer.uncertainty import std_of


def transfer_schedule(n: int, allowed: float, refuted: int | None) -> NDArray[np.bool_]:
    """``(n,)`` whether each measurement of a search is the transfer model's choice.

    The first is, and then as many as keep its share at or below ``1 - 1 / allowed``.

    Args:
        n: Measurements.
        allowed: Most measurements relative to the fallback's own.
        refuted: After how many measurements the transfer model was refuted; None if it was not.
    """
    # The small number lets the share of exactly one fifth be reached.
    entitled = np.floor((1.0 - 1.0 / allowed) * np.arange(1, n + 1) + 1e-9).astype(int).clip(min=1)
    taken = np.diff(entitled, prepend=0) > 0
    return np.asarray(taken & (np.arange(n) < (n if refuted is None else refuted)))


def own_and_better(y: FloatArray, transferred: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """``(m,)`` what the fallback's proposals are made from: its own, and what is better than all of these."""
    if transferred.all():
        return np.zeros(len(y), dtype=bool)
    return np.asarray(~transferred | (y < y[~transferred].min()))


class Proposal:
    """What to measure next, beside what is predicted.

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
