"""What a model expects of kernels at the SM budgets of a space, as one score.

Notations:
    n: kernels, b: SM budgets, d: features of a kernel at one budget. X is ``(n, b, d)``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._base import Prediction
from costmodel.search._acquisition import expected_improvement, improvement_of_posterior
from costmodel.search._objective import Objective, SearchGoal
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer._plan import Posterior, shortlist


@dataclass(frozen=True)
class JointPrediction:
    """What is expected of n kernels.

    Attributes:
        score: ``(n,)`` over all budgets; higher is better.
        latency_s: ``(n, b)`` seconds; None where a predictor tells none.
    """

    score: FloatArray
    latency_s: FloatArray | None


@dataclass(frozen=True)
class JointPredictor:
    """Scores kernels by what is expected of them at all budgets together.

    At a single budget the score is that of its predictor. One kernel for several budgets is scored by the
    objective: minus the log of its predicted latency over the best, combined over the budgets. The best is
    the smaller of what was measured and what is predicted among ``reference``, so that a budget at which
    nothing good was measured yet counts too. A kernel of a portfolio need not be good everywhere: it is
    scored by its largest expected improvement of log latency over the best measured at any budget, or by its
    predicted gain where the predictors tell no std or nothing was measured.

    Where a predictor tells no latency, minus its score stands for the log latency up to a constant.

    Attributes:
        predictors: ``(b,)`` what predicts at each budget.
        objective: How budgets combine.
        goal: One kernel, or one of a portfolio.
        best_s: ``(b,)`` best measured seconds; inf where nothing works yet.
        reference: Gives ``(n, b, d)`` kernels that could be chosen, such as a large draw; one or more. Asked
            where there are several budgets only.
    """

    predictors: tuple[Predictor, ...]
    objective: Objective
    goal: SearchGoal
    best_s: FloatArray
    reference: Callable[[], FloatArray]

    def predict(self, X: FloatArray) -> JointPrediction:
        """Score and latencies of each kernel."""
        told = self._at_budgets(X)
        latencies = [prediction.latency_s for prediction in told if prediction.latency_s is not None]
        known = len(latencies) == len(told)
        return JointPrediction(self._score(X, told), np.stack(latencies, axis=1) if known else None)

    def log_latency(self, X: FloatArray) -> FloatArray:
        """``(n, b)`` natural log of predicted seconds, or what stands for it."""
        return _log_latencies(self._at_budgets(X))

    @property
    def posterior(self) -> Posterior | None:
        """The joint posterior at a single budget at which something ran; None for all else."""
        only = self.predictors[0]
        if len(self.predictors) > 1 or not np.isfinite(self.best_s[0]) or not isinstance(only, Posterior):
            return None
        return only

    def improvement(self, X: FloatArray) -> FloatArray:
        """``(k,)`` expected improvement by the posterior of the first k kernels, which come best score first.

        Empty where there is no posterior.
        """
        posterior = self.posterior
        if posterior is None:
            return np.zeros(0)
        return improvement_of_posterior(posterior, X[:, 0], float(self.best_s[0]))

    def shortlist(self, X: FloatArray, k: int, seed: int) -> Positions:
        """Positions of up to k kernels to measure together, in order.

        At a single budget as ``costmodel.transfer.shortlist`` chooses them; over several, where nothing tells
        how their latencies vary together, the best score alone.
        """
        if len(self.predictors) > 1:
            return np.argsort(-self.predict(X).score, kind="stable")[:1]
        best_s = float(self.best_s[0])
        return shortlist(
            self.predictors[0], X[:, 0], k, best_s=best_s if np.isfinite(best_s) else None, seed=seed
        )

    def _at_budgets(self, X: FloatArray) -> list[Prediction]:
        return [predictor.predict(X[:, i]) for i, predictor in enumerate(self.predictors)]

    def _score(self, X: FloatArray, told: Sequence[Prediction]) -> FloatArray:
        if len(told) == 1:
            return told[0].score
        log_s = _log_latencies(told)
        if self.goal is SearchGoal.ONE_KERNEL:
            return -self.objective.combine(log_s - np.minimum(*self._best))
        return np.asarray(self._gain(X, log_s).max(axis=1))

    def _gain(self, X: FloatArray, log_s: FloatArray) -> FloatArray:
        """``(n, b)`` expected improvement, or predicted gain, of log latency."""
        measured, predicted = self._best
        if not np.isfinite(measured).all():
            return np.minimum(measured, predicted) - log_s
        gain = measured - log_s
        for i, predictor in enumerate(self.predictors):
            if std := getattr(predictor, "std", None):
                gain[:, i] = expected_improvement(gain[:, i], std(X[:, i]))
        return gain

    @cached_property
    def _best(self) -> tuple[FloatArray, FloatArray]:
        """``(b,)`` log of the best measured, inf where nothing compares, and of the best predicted."""
        told = self._at_budgets(self.reference())
        comparable = np.array([prediction.latency_s is not None for prediction in told])
        return np.where(comparable, np.log(self.best_s), np.inf), _log_latencies(told).min(axis=0)


@dataclass(frozen=True)
class Prior:
    """What is known before the first measurement, and what is looked for.

    Attributes:
        model: Knows other workloads.
        objective: How budgets combine.
        goal: One kernel, or one of a portfolio.
        reference: Gives ``(n, b, d)`` kernels that could be chosen.
    """

    model: TransferModel
    objective: Objective
    goal: SearchGoal
    reference: Callable[[], FloatArray]

    def best_s(self) -> FloatArray | None:
        """``(b,)`` best seconds predicted before anything was measured; None where the model tells none."""
        predicted = self.zero_shot().predict(self.reference()).latency_s
        return None if predicted is None else np.asarray(predicted.min(axis=0))

    def zero_shot(self) -> JointPredictor:
        """What is expected before anything was measured."""
        budgets = len(self.objective.weights)
        return self._predictor([self.model] * budgets, np.full(budgets, np.inf))

    def condition_on(self, X: FloatArray, latency_s: FloatArray) -> JointPredictor:
        """What is expected after measurements: the model adapts to each budget by what was measured there.

        Args:
            X: ``(m, b, d)`` measured kernels, m >= 0.
            latency_s: ``(m, b)`` seconds; inf for a failure, NaN where not measured.
        """
        predictors: list[Predictor] = []
        for i, y in enumerate(latency_s.T):
            known = ~np.isnan(y)
            predictors.append(self.model.propose(X[known, i], y[known]))
        known_s = np.where(np.isnan(latency_s), np.inf, latency_s)
        return self._predictor(predictors, known_s.min(axis=0, initial=np.inf))

    def _predictor(self, predictors: Sequence[Predictor], best_s: FloatArray) -> JointPredictor:
        return JointPredictor(tuple(predictors), self.objective, self.goal, best_s, self.reference)


def _log_latencies(told: Sequence[Prediction]) -> FloatArray:
    """``(n, b)`` log of predicted seconds, or minus the score."""
    return np.stack([-p.score if p.latency_s is None else np.log(p.latency_s) for p in told], axis=1)
