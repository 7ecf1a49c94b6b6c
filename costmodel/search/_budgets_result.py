"""What a search over several SM budgets found, and the kernels that follow from it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Outcome, Platform
from costmodel.search._objective import FreeSms, Objective, fewest_sms
from costmodel.search._result import Provenance
from costmodel.search.portfolio import (
    BudgetRange,
    DispatchTable,
    best_portfolio,
    dispatch_ranges,
    served_s,
    smallest_portfolio,
)


@dataclass(frozen=True)
class BudgetsTrial:
    """One proposal, measured on every budget.

    Attributes:
        number: Number of its Optuna trial.
        candidate: What was measured.
        outcomes: ``(b,)`` how it ended on each budget.
        latency_s: ``(b,)`` median latencies in seconds; inf where it failed.
        error: First line of the first failure's message; empty where all is ok.
        predicted_latency_s: ``(b,)`` seconds predicted before it was measured; None where the model tells
            none.
    """

    number: int
    candidate: Candidate
    outcomes: tuple[Outcome, ...]
    latency_s: tuple[float, ...]
    error: str = ""
    predicted_latency_s: tuple[float, ...] | None = None


@dataclass(frozen=True)
class BudgetsResult:
    """Result of a search over several SM budgets.

    Attributes:
        platforms: ``(b,)`` platforms, by granted SMs.
        objective: What one kernel, or a portfolio, is chosen by.
        trials: In the order in which they were proposed, failures included.
        provenance: Where the answer came from.
    """

    platforms: tuple[Platform, ...]
    objective: Objective
    trials: tuple[BudgetsTrial, ...]
    provenance: Provenance

    @property
    def sms(self) -> tuple[int, ...]:
        """``(b,)`` granted SMs, ascending."""
        return tuple(platform.sms_granted for platform in self.platforms)

    @cached_property
    def latency_s(self) -> FloatArray:
        """``(n, b)`` seconds of each trial on each budget; inf where it failed."""
        return np.array([trial.latency_s for trial in self.trials]).reshape(-1, len(self.platforms))

    def portfolio(self, most: int) -> tuple[BudgetRange, ...]:
        """The best kernels, at most so many, and their ranges; with 1, the one kernel for all budgets.

        Raises:
            CostModelError: So few of the kernels measured do not work on all budgets.
        """
        return best_portfolio(self.latency_s, self.objective, most)

    def smallest_portfolio(self, tolerance: float) -> tuple[BudgetRange, ...]:
        """The fewest kernels that are within ``tolerance`` of the best measured on every budget.

        Raises:
            CostModelError: No kernel works on some budget.
        """
        return smallest_portfolio(self.latency_s, tolerance, self.objective)

    def free_sms(self, tolerance: float) -> FreeSms:
        """The fewest SMs whose best kernel costs at most ``tolerance`` more than the best on the most.

        Raises:
            CostModelError: No kernel works on some budget.
        """
        return fewest_sms(self.latency_s, self.sms, tolerance)

    def regret(self, ranges: Sequence[BudgetRange]) -> FloatArray:
        """``(b,)`` latency of a portfolio over the best measured on each budget, minus 1."""
        return np.asarray(served_s(self.latency_s, ranges) / self.latency_s.min(axis=0) - 1.0)

    def progress(self, most: int) -> FloatArray:
        """``(n,)`` regret by the objective of the best portfolio of the first 1, 2, ... n trials.

        Regret is over the best that all trials found; inf as long as no portfolio works on all budgets.
        """
        best_s = self.latency_s.min(axis=0)
        return np.array(
            [self._value(self.latency_s[:n], most, best_s) for n in range(1, len(self.trials) + 1)]
        )

    def dispatch_table(self, ranges: Sequence[BudgetRange]) -> DispatchTable:
        """The table of a portfolio, for all SMs of the device."""
        device = self.platforms[-1].device
        kernels = [trial.candidate for trial in self.trials]
        return DispatchTable(
            workload=kernels[0].workload,
            device=device,
            objective=self.objective.name.value,
            ranges=dispatch_ranges(kernels, ranges, self.latency_s, self.sms, device.sms),
            provenance=self.provenance,
        )

    def _value(self, latency_s: FloatArray, most: int, best_s: FloatArray) -> float:
        """Regret of the best portfolio of these kernels by the objective; inf where there is none."""
        try:
            ranges = best_portfolio(latency_s, self.objective, most, best_s=best_s)
        except CostModelError:
            return float("inf")
        return float(np.expm1(self.objective.combine(np.log(served_s(latency_s, ranges) / best_s))))
