"""Objectives for choosing kernels for one or several SM budgets, as functions of a latency table.

Notations:
    n: kernels, b: SM budgets. latency_s is ``(n, b)`` seconds; NaN where a kernel was not measured, inf where
    it failed. Smaller is better throughout.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError


class SearchGoal(StrEnum):
    """Whether a search looks for one kernel or a portfolio; with one SM budget, both are the same."""

    ONE_KERNEL = "one kernel"
    PORTFOLIO = "portfolio"


class ObjectiveName(StrEnum):
    """Names of the objectives."""

    WORST_REGRET = "worst-regret"
    MEAN = "mean"
    WEIGHTED = "weighted"


@dataclass(frozen=True)
class Objective:
    """How regrets at several SM budgets combine into one number.

    The regret of a kernel at an SM budget is its latency over the best at that budget, minus 1.
    ``worst-regret`` is the largest over the budgets: minimax regret (Savage, "The Theory of Statistical
    Decision", 1951). ``mean`` is the geometric mean of the latency ratios, minus 1, so that a factor counts
    the same at every budget. ``weighted`` is their weighted geometric mean, minus 1.

    Attributes:
        name: Name of the objective.
        weights: ``(b,)`` positive weight of each SM budget. For ``worst-regret``, they only break ties.
    """

    name: ObjectiveName
    weights: tuple[float, ...]

    @classmethod
    def make(cls, name: ObjectiveName | str, budgets: int, weights: tuple[float, ...] | None = None) -> Self:
        """Make an objective for a number of SM budgets; only ``weighted`` takes weights, and requires them.

        Raises:
            CostModelError: The objective is unknown, or weights are missing, unexpected, not one per SM
                budget, or not positive.
        """
        if name not in (known := [objective.value for objective in ObjectiveName]):
            raise CostModelError(f"The objective must be one of {', '.join(known)}, but got {str(name)!r}.")
        name = ObjectiveName(name)
        if (weights is not None) != (name is ObjectiveName.WEIGHTED):
            raise CostModelError(
                f"Weights must be given with the objective weighted, and only then, but got {weights} with "
                f"{name.value}. Give the objective weighted and its weights together."
            )
        weights = weights or (1.0,) * budgets
        if len(weights) != budgets or not all(0 < weight < np.inf for weight in weights):
            raise CostModelError(
                f"There must be one positive weight for each of {budgets} SM budgets, but got {weights}."
            )
        return cls(name, weights)

    def combine(self, log_ratio: FloatArray) -> FloatArray:
        """Combine ``(..., b)`` natural logs of latency over a reference into ``(...)`` numbers."""
        if self.name is ObjectiveName.WORST_REGRET:
            return np.asarray(log_ratio.max(axis=-1))
        return np.asarray(log_ratio @ np.array(self.weights) / sum(self.weights))

    def regret(self, latency_s: FloatArray) -> FloatArray:
        """Return the ``(n,)`` regret of each kernel, at least 0; inf if it fails at an SM budget.

        Raises:
            CostModelError: At some budget no kernel works.
        """
        return np.expm1(self.combine(log_regret(latency_s)))


def log_regret(latency_s: FloatArray, best_s: FloatArray | None = None) -> FloatArray:
    """``(n, b)`` natural log of latency over the best at that budget.

    Inf for a kernel that failed there or was not measured there: it cannot be chosen for that budget.

    Args:
        latency_s: ``(n, b)`` seconds.
        best_s: ``(b,)`` the best; that of these kernels if not given.

    Raises:
        CostModelError: At some budget no kernel works.
    """
    known = np.where(np.isnan(latency_s), np.inf, latency_s)
    best = known.min(axis=0, initial=np.inf)
    if not np.isfinite(best).all():
        raise CostModelError(
            "At each SM budget at least one kernel must work, but none of "
            f"{len(latency_s)} does at {np.flatnonzero(~np.isfinite(best)).size} of {best.size} budgets. "
            "Measure more candidates, or leave these budgets out."
        )
    return np.asarray(np.log(known / (best if best_s is None else best_s)))


@dataclass(frozen=True)
class FreeSms:
    """The fewest SMs that are enough.

    Attributes:
        budget: Position of the SM budget.
        kernel: Row of the best kernel at this budget.
        whole_kernel: Row of the best kernel on the whole device.
        cost: Latency of the best kernel at this budget over that of the best on the whole device, minus 1;
            negative if it is faster on fewer SMs.
    """

    budget: int
    kernel: int
    whole_kernel: int
    cost: float


def fewest_sms(latency_s: FloatArray, sms: tuple[int, ...], tolerance: float) -> FreeSms:
    """Find the fewest SMs whose best kernel is at most ``tolerance`` slower than the best on the most SMs.

    Args:
        latency_s: ``(n, b)`` seconds.
        sms: ``(b,)`` SMs of each budget, distinct; the largest stands for the whole device.
        tolerance: Share of latency, such as 0.04 for 4%; at least 0.

    Raises:
        CostModelError: At some budget no kernel works, or the tolerance is negative.
    """
    if not tolerance >= 0.0:
        raise CostModelError(f"The cost of freed SMs must be at least 0 %, but got {100 * tolerance:g} %.")
    kernels = log_regret(latency_s).argmin(axis=0)
    best_s = latency_s[kernels, np.arange(len(sms))]
    whole = int(np.argmax(sms))
    enough = np.flatnonzero(best_s <= (1.0 + tolerance) * best_s[whole])
    budget = int(min(enough, key=lambda i: sms[i]))
    cost = float(best_s[budget] / best_s[whole]) - 1.0
    return FreeSms(budget, int(kernels[budget]), int(kernels[whole]), cost)
