"""Choose a few kernels for many SM budgets, and the range of SMs in which each should run.

Notations:
    n: kernels, b: SM budgets in ascending order, k: ranges. ``cost[i, j]`` is that of one kernel, the best
    for it, over the budgets i to j, both included.

Source: optimal partition of ordered points by dynamic programming: Bellman, "On the approximation of curves
by line segments using dynamic programming", 1961; Jackson et al., "An algorithm for optimal partitioning of
data on an interval", 2005.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.search._objective import Objective, ObjectiveName, log_regret

# Two sums of the same logs in another order differ by less; no measurement differs by as little.
_EQUAL = 1e-9


@dataclass(frozen=True)
class BudgetRange:
    """One kernel over adjacent SM budgets.

    Attributes:
        first: Position of its first budget.
        last: Position of its last budget.
        kernel: Row of the kernel.
    """

    first: int
    last: int
    kernel: int

    @property
    def budgets(self) -> range:
        """Positions of its budgets."""
        return range(self.first, self.last + 1)


def best_portfolio(
    latency_s: FloatArray, objective: Objective, most: int, *, best_s: FloatArray | None = None
) -> tuple[BudgetRange, ...]:
    """Find the exact best partition of the SM budgets into at most ``most`` ranges, one kernel each.

    Of equally good ones that with the fewest ranges; of these, for the worst regret, that with the smallest
    weighted mean. A kernel that serves two ranges counts twice. One range is the one kernel that is best on
    all budgets.

    Args:
        latency_s: ``(n, b)`` seconds, budgets ascending; NaN where not measured, inf where failed. Such a
            kernel serves no range with that budget.
        objective: What is minimised.
        most: Ranges at most, 1 or more.
        best_s: ``(b,)`` best latencies that regret is counted from; those of these kernels if not given.

    Raises:
        CostModelError: So few kernels cannot serve all budgets, or at some budget no kernel works.
        ValueError: ``most < 1``.
    """
    if most < 1:
        raise ValueError(f"most must be at least 1, but got {most}")
    regret, most = log_regret(latency_s, best_s), min(most, latency_s.shape[1])
    limit = np.inf
    if objective.name is ObjectiveName.WORST_REGRET:
        worst, _ = _range_costs(regret, objective.weights, worst=True)
        values, _ = _partition(worst, most, np.maximum)
        limit = float(values[:, -1].min())
        if np.isfinite(limit):
            most = 1 + int(np.argmax(values[:, -1] <= limit + _EQUAL))
    return _cheapest(regret, objective.weights, most, limit)


def smallest_portfolio(
    latency_s: FloatArray, tolerance: float, objective: Objective
) -> tuple[BudgetRange, ...]:
    """Find the fewest ranges whose kernels are within ``tolerance`` of the best at every SM budget.

    Of equally few the one with the smallest weighted mean regret.

    Args:
        latency_s: As for ``best_portfolio``.
        tolerance: Largest regret at any budget, such as 0.02 for 2 %; at least 0.
        objective: Has the weights.

    Raises:
        CostModelError: At some budget no kernel works, or the tolerance is negative.
    """
    if not tolerance >= 0.0:
        raise CostModelError(f"The regret allowed must be at least 0 %, but got {100 * tolerance:g} %.")
    regret, limit = log_regret(latency_s), float(np.log1p(tolerance))
    within = np.where(regret <= limit + _EQUAL, 0.0, np.inf)
    needed, _ = _partition(_range_costs(within, objective.weights)[0], regret.shape[1], np.add)
    fewest = 1 + int(np.argmax(np.isfinite(needed[:, -1])))
    return _cheapest(regret, objective.weights, fewest, limit)


def served_s(latency_s: FloatArray, ranges: Sequence[BudgetRange]) -> FloatArray:
    """Return ``(b,)`` latency of a portfolio at each SM budget, in seconds."""
    return np.concatenate([latency_s[part.kernel, part.first : part.last + 1] for part in ranges])


def _cheapest(
    regret: FloatArray, weights: tuple[float, ...], most: int, limit: float
) -> tuple[BudgetRange, ...]:
    """The partition with the smallest weighted sum of regrets, none of them above ``limit``."""
    allowed = np.where(regret <= limit + _EQUAL, regret, np.inf)
    cost, kernel = _range_costs(allowed, weights)
    values, starts = _partition(cost, most, np.add)
    best = values[:, -1].min()
    if not np.isfinite(best):
        raise CostModelError(
            f"The kernels must work at all SM budgets between them, but no {most} of {len(regret)} do. "
            "Allow more kernels, measure more candidates, or leave budgets out."
        )
    ranges, last = [], regret.shape[1] - 1
    for k in range(int(np.argmax(values[:, -1] <= best + _EQUAL)), -1, -1):
        first = int(starts[k, last])
        ranges.append(BudgetRange(first, last, int(kernel[first, last])))
        last = first - 1
    return tuple(reversed(ranges))


def _range_costs(
    regret: FloatArray, weights: tuple[float, ...], *, worst: bool = False
) -> tuple[FloatArray, NDArray[np.intp]]:
    """``(b, b)`` cost of each range and its kernel: the smallest weighted sum of regrets, or worst regret.

    Inf where a range would end before it begins. Ties go to the first kernel.
    """
    budgets = regret.shape[1]
    cost, kernel = np.full((budgets, budgets), np.inf), np.zeros((budgets, budgets), dtype=np.intp)
    weighted = regret * np.array(weights)
    for first in range(budgets):
        part = regret[:, first:] if worst else weighted[:, first:]
        total = np.maximum.accumulate(part, axis=1) if worst else part.cumsum(axis=1)
        cost[first, first:], kernel[first, first:] = total.min(axis=0), total.argmin(axis=0)
    return cost, kernel


def _partition(
    cost: FloatArray, most: int, join: Callable[[FloatArray, FloatArray], FloatArray]
) -> tuple[FloatArray, NDArray[np.intp]]:
    """Smallest cost of the budgets up to each one in exactly so many ranges, and where the last one starts.

    Args:
        cost: ``(b, b)`` cost of each range.
        most: Ranges at most.
        join: How costs of two ranges become one: ``np.add`` or ``np.maximum``.

    Returns:
        Two ``(most, b)`` arrays; row k is for k + 1 ranges.
    """
    values, starts = [cost[0]], [np.zeros(len(cost), dtype=np.intp)]
    for _ in range(1, most):
        before = np.concatenate(([np.inf], values[-1][:-1]))
        joined = join(before[:, None], cost)
        values.append(joined.min(axis=0))
        starts.append(joined.argmin(axis=0))
    return np.array(values), np.array(starts)
