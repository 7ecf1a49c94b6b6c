"""What one predictor proposes, beside what another predicts."""

from costmodel.arrays import FloatArray
from costmodel.learners._base import Prediction
from costmodel.transfer._base import Predictor
from costmodel.transfer.uncertainty._rehearsal import std_of


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
