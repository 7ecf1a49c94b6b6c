"""What a model expects of kernels at several SM budgets, as one score.

Notations:
    n: kernels, b: SM budgets, d: features of a kernel at one budget. X is ``(n, b * d)``: the features at the
    first budget, then those at the second, and so on.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np
from scipy.special import ndtr

from costmodel.arrays import FloatArray
from costmodel.learners import Prediction
from costmodel.search._objective import Objective
from costmodel.transfer import Predictor, TransferModel


class SearchGoal(StrEnum):
    """What a search over several budgets looks for."""

    ONE_KERNEL = "one kernel"
    PORTFOLIO = "portfolio"


@dataclass(frozen=True)
class BudgetsPredictor:
    """Scores kernels by what is expected of them at all budgets together.

    One kernel for all budgets is scored by the objective: minus the log of its predicted latency over the
    best, combined over the budgets. The best is the smaller of what was measured and what is predicted among
    ``reference``, so that a budget at which nothing good was measured yet counts too. A kernel of a portfolio
    need not be good everywhere: it is scored by its largest expected improvement of log latency over the best
    measured at any budget (Jones, Schonlau and Welch, 1998, equation 15), or by its predicted gain where the
    predictors tell no std or nothing was measured.

    Where a predictor tells no latency, minus its score stands for the log latency up to a constant.

    Attributes:
        predictors: ``(b,)`` what predicts at each budget.
        objective: How budgets combine.
        goal: One kernel, or one of a portfolio.
        best: ``(b,)`` log of the smaller of the best measured and the best predicted.
        measured: ``(b,)`` log of the best measured; inf where nothing was.
    """

    predictors: tuple[Predictor, ...]
    objective: Objective
    goal: SearchGoal
    best: FloatArray
    measured: FloatArray

    @classmethod
    def make(
        cls,
        predictors: Sequence[Predictor],
        objective: Objective,
        goal: SearchGoal,
        best_s: FloatArray,
        reference: FloatArray,
    ) -> Self:
        """A predictor with what is known so far.

        Args:
            predictors: ``(b,)`` predictor of each budget.
            objective: How budgets combine.
            goal: What is looked for.
            best_s: ``(b,)`` best measured seconds; inf where nothing works yet.
            reference: ``(n, b * d)`` kernels that could be chosen, such as a large draw; one or more.
        """
        told = [p.predict(part) for p, part in zip(predictors, _parts(reference, best_s), strict=True)]
        predicted = np.array([_log_latency(prediction).min() for prediction in told])
        comparable = np.array([prediction.latency_s is not None for prediction in told])
        measured = np.where(comparable, np.log(best_s), np.inf)
        return cls(tuple(predictors), objective, goal, np.minimum(measured, predicted), measured)

    def predict(self, X: FloatArray) -> Prediction:
        """One score for each kernel; no latency, as it would be another at each budget."""
        log_s = self.log_latency(X)
        if self.goal is SearchGoal.ONE_KERNEL:
            return Prediction(-self.objective.combine(log_s - self.best))
        return Prediction(self._improvement(X, log_s).max(axis=1))

    def at_budgets(self, X: FloatArray) -> list[Prediction]:
        """``(b,)`` prediction of each budget."""
        parts = _parts(X, self.best)
        return [predictor.predict(part) for predictor, part in zip(self.predictors, parts, strict=True)]

    def log_latency(self, X: FloatArray) -> FloatArray:
        """``(n, b)`` natural log of predicted seconds, or what stands for it."""
        return np.stack([_log_latency(prediction) for prediction in self.at_budgets(X)], axis=1)

    def _improvement(self, X: FloatArray, log_s: FloatArray) -> FloatArray:
        """``(n, b)`` expected improvement, or predicted gain, of log latency."""
        if not np.isfinite(self.measured).all():
            return self.best - log_s
        stds = [getattr(predictor, "std", None) for predictor in self.predictors]
        gain = self.measured - log_s
        for column, (std, part) in enumerate(zip(stds, _parts(X, self.best), strict=True)):
            if std is not None:
                gain[:, column] = _expected(gain[:, column], std(part))
        return gain


@dataclass(frozen=True)
class BudgetsKnowledge:
    """What is known before the first measurement, and what is wanted.

    Attributes:
        model: Knows other workloads.
        objective: How budgets combine.
        goal: One kernel, or one of a portfolio.
        reference: ``(n, b * d)`` kernels that could be chosen.
    """

    model: TransferModel
    objective: Objective
    goal: SearchGoal
    reference: FloatArray

    def reference_s(self) -> FloatArray | None:
        """``(b,)`` best seconds predicted before anything was measured; None where the model tells none."""
        told = self.zero_shot().at_budgets(self.reference)
        best = [p.latency_s.min() for p in told if p.latency_s is not None]
        return np.array(best) if len(best) == len(told) else None

    def zero_shot(self) -> BudgetsPredictor:
        """What is expected before anything was measured."""
        budgets = len(self.objective.weights)
        return self._predictor([self.model] * budgets, np.full(budgets, np.inf))

    def adapted(self, X: FloatArray, latency_s: FloatArray) -> BudgetsPredictor:
        """What is expected after measurements: the model adapts to each budget by what was measured there.

        Args:
            X: ``(m, b * d)`` measured kernels, m >= 1.
            latency_s: ``(m, b)`` seconds; inf for a failure, NaN where not measured.
        """
        predictors: list[Predictor] = []
        for part, y in zip(_parts(X, latency_s.T), latency_s.T, strict=True):
            known = ~np.isnan(y)
            predictors.append(self.model.propose(part[known], y[known]) if known.any() else self.model)
        return self._predictor(predictors, np.where(np.isnan(latency_s), np.inf, latency_s).min(axis=0))

    def _predictor(self, predictors: Sequence[Predictor], best_s: FloatArray) -> BudgetsPredictor:
        return BudgetsPredictor.make(predictors, self.objective, self.goal, best_s, self.reference)


def _parts(X: FloatArray, budgets: FloatArray) -> list[FloatArray]:
    """``(n, d)`` columns of each of ``len(budgets)`` budgets."""
    return np.split(X, len(budgets), axis=1)


def _log_latency(prediction: Prediction) -> FloatArray:
    """``(n,)`` log of predicted seconds, or minus the score."""
    return -prediction.score if prediction.latency_s is None else np.log(prediction.latency_s)


def _expected(gain: FloatArray, std: FloatArray) -> FloatArray:
    """Expected improvement where the gain is normal with this mean and standard deviation."""
    z = gain / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(gain * ndtr(z) + std * density)
