"""What a model expects of kernels at the SM budgets of a space, as one score.

Notations:
    n: kernels, b: SM budgets, d: features of a kernel at one budget. X is ``(n, b, d)``.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._base import Prediction
from costmodel.learners._scaler import Scaler
from costmodel.search._acquisition import expected_improvement, improvement_of_posterior
from costmodel.search._gaussian_process import GaussianProcess, spread_rows
from costmodel.search._objective import Objective, SearchGoal
from costmodel.search.samplers._from_nothing import FromNothing, Surrogate
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer._plan import Posterior, shortlist

_MOST_KNOWN = 200  # the work of a prediction grows with the square of their number


@dataclass(frozen=True)
class Feasibility:
    """Probability that no constraint is above 0, one Gaussian process each, taken as independent.

    Source: Gardner et al., "Bayesian optimization with inequality constraints", ICML 2014.

    Attributes:
        constraints: Predict by how much a config is beyond each constraint, on a scale of its own.
    """

    constraints: tuple[GaussianProcess, ...]

    @classmethod
    def of(cls, X: FloatArray, excess: FloatArray, scaler: Scaler) -> Self:
        """Learn from measured configs.

        Args:
            X: ``(m, d)`` features.
            excess: ``(m, c)`` by how much each was beyond each constraint: above 0 is too much, NaN unknown.
            scaler: Knows the scale of the features.
        """
        return cls(
            tuple(
                GaussianProcess.fit_relevance(X[rows], _tamed(values[rows]), scaler)
                for values, rows in zip(excess.T, map(_telling, excess.T), strict=True)
                if rows.size
            )
        )

    def log_probability(self, X: FloatArray) -> FloatArray:
        """``(n,)`` natural log of the probability that a config keeps all constraints."""
        from scipy.special import log_ndtr

        found = np.zeros(len(X))
        for constraint in self.constraints:
            mean, std = constraint.predict(X)
            found += log_ndtr(-mean / np.maximum(std, 1e-9))
        return found


def _telling(excess: FloatArray) -> Positions:
    """Rows to learn from: of many, half are those nearest to the constraint."""
    known = np.flatnonzero(~np.isnan(excess))
    return known[spread_rows(np.abs(excess[known]), _MOST_KNOWN)]


def _tamed(excess: FloatArray) -> FloatArray:
    """The excess with large values drawn in; what is above 0 stays there."""
    unit = float(np.median(np.abs(excess))) or 1.0
    return np.arcsinh(excess / unit)


# Pairs of a kernel and a measurement that are looked at together: 64 MiB a matrix.
_MOST_PAIRS = 2**23


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
        feasibility: How likely a kernel is to keep the constraints that trials were told; None where none
            were. Its log is added to the score.
        known: How many measurements the predictors learned from.
    """

    predictors: tuple[Predictor, ...]
    objective: Objective
    goal: SearchGoal
    best_s: FloatArray
    reference: Callable[[], FloatArray]
    feasibility: Feasibility | None = None
    known: int = 0

    def predict(self, X: FloatArray) -> JointPrediction:
        """Score and latencies of each kernel, of so many at once that memory is bounded."""
        rows = max(1, _MOST_PAIRS // max(1, self.known))
        if len(X) <= rows:
            return self._predict(X)
        parts = [self._predict(X[start : start + rows]) for start in range(0, len(X), rows)]
        latencies = [part.latency_s for part in parts if part.latency_s is not None]
        return JointPrediction(
            np.concatenate([part.score for part in parts]),
            np.concatenate(latencies) if latencies else None,
        )

    def _predict(self, X: FloatArray) -> JointPrediction:
        told = self._at_budgets(X)
        latencies = [prediction.latency_s for prediction in told if prediction.latency_s is not None]
        known = len(latencies) == len(told)
        score = self._score(X, told)
        if self.feasibility is not None:
            score = score + self.log_feasible(X)
        return JointPrediction(score, np.stack(latencies, axis=1) if known else None)

    def log_feasible(self, X: FloatArray) -> FloatArray:
        """``(n,)`` natural log of the probability that a kernel keeps all constraints."""
        return np.zeros(len(X)) if self.feasibility is None else self.feasibility.log_probability(X[:, 0])

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

        It counts as nothing where a constraint is broken. Empty where there is no posterior.
        """
        posterior, best_s = self.posterior, float(self.best_s[0])
        if posterior is None:
            return np.zeros(0)
        if isinstance(posterior, Surrogate):
            found = posterior.improvement(X[:, 0], best_s)
        else:
            found = improvement_of_posterior(posterior, X[:, 0], best_s)
        return found * np.exp(self.log_feasible(X[: len(found)]))

    def worth(self, X: FloatArray) -> FloatArray:
        """``(n,)`` expected improvement of each kernel where a posterior is known, otherwise its score."""
        if self.posterior is None:
            return self.predict(X).score
        return self.improvement(X)

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
class SearchPrior:
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

    def condition_on(
        self, X: FloatArray, latency_s: FloatArray, excess: FloatArray | None = None
    ) -> JointPredictor:
        """What is expected after measurements: the model adapts to each budget by what was measured there.

        Args:
            X: ``(m, b, d)`` measured kernels, m >= 0.
            latency_s: ``(m, b)`` seconds; inf for a failure, NaN where not measured.
            excess: ``(m, c)`` by how much each is beyond each constraint; above 0 is too much, NaN unknown.
        """
        predictors: list[Predictor] = []
        for i, y in enumerate(latency_s.T):
            known = ~np.isnan(y)
            predictors.append(self.model.propose(X[known, i], y[known]))
        excess = np.zeros((len(X), 0)) if excess is None else excess
        broken = np.isnan(latency_s) | (excess > 0.0).any(axis=1, keepdims=True)
        best_s = np.where(broken, np.inf, latency_s).min(axis=0, initial=np.inf)
        failed = np.isinf(latency_s).any(axis=1)
        if isinstance(self.model, FromNothing) and failed.any():
            excess = np.column_stack([excess, np.where(failed, 1.0, -1.0)])
        feasibility = Feasibility.of(X[:, 0], excess, self._scaler) if excess.size else None
        return self._predictor(predictors, best_s, feasibility, len(X))

    @cached_property
    def _scaler(self) -> Scaler:
        """The scale of the features, as kernels that could be chosen show it."""
        return Scaler().fit(self.reference()[:, 0])

    def _predictor(
        self,
        predictors: Sequence[Predictor],
        best_s: FloatArray,
        feasibility: Feasibility | None = None,
        known: int = 0,
    ) -> JointPredictor:
        return JointPredictor(
            tuple(predictors), self.objective, self.goal, best_s, self.reference, feasibility, known
        )


def _log_latencies(told: Sequence[Prediction]) -> FloatArray:
    """``(n, b)`` log of predicted seconds, or minus the score."""
    return np.stack([-p.score if p.latency_s is None else np.log(p.latency_s) for p in told], axis=1)
