"""The result of a search: its trials and the best kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records._platform import Platform
from costmodel.search._dispatch import DispatchTable, dispatch_ranges
from costmodel.search._drift_monitor import Drift
from costmodel.search._objective import FreeSms, Objective, fewest_sms
from costmodel.search._portfolio import BudgetRange, best_portfolio, served_s, smallest_portfolio
from costmodel.search._provenance import Provenance
from costmodel.search._trial import Trial


@dataclass(frozen=True)
class SearchResult:
    """Result of a search over one or several SM budgets.

    Notations: m trials, b SM budgets.

    Attributes:
        platforms: ``(b,)`` platforms where the candidates were measured, in the order of the space.
        objective: The objective by which one kernel, or a portfolio, is chosen.
        trials: ``(m,)`` trials in the order of proposal, failures included.
            Latencies measured before a drift are multiplied by its ratio, to compare with those after it.
        provenance: Where the answer came from.
        drifts: Drifts of all latencies that were detected; ``since`` is the number of a trial.
        finalists: Positions of the trials that were measured alone, if the others were not; otherwise empty.
    """

    platforms: tuple[Platform, ...]
    objective: Objective
    trials: tuple[Trial, ...]
    provenance: Provenance
    drifts: tuple[Drift, ...] = ()
    finalists: tuple[int, ...] = ()

    @classmethod
    def joined(cls, results: Mapping[str, "SearchResult"]) -> "SearchResult":
        """Join several searches of one workload on the same platforms, such as those of several sources.

        Args:
            results: One or more results by name. Trial numbers of each search continue those of the previous.
        """
        first = next(iter(results.values()))
        provenance = Provenance.joined({name: result.provenance for name, result in results.items()})
        trials: list[Trial] = []
        drifts: list[Drift] = []
        for result in results.values():
            start = trials[-1].number + 1 if trials else 0
            trials += (replace(trial, number=start + trial.number) for trial in result.trials)
            drifts += (replace(drift, since=start + drift.since) for drift in result.drifts)
        return cls(first.platforms, first.objective, tuple(trials), provenance, tuple(drifts))

    @property
    def sms(self) -> tuple[int, ...]:
        """``(b,)`` granted SMs."""
        return tuple(platform.sms_granted for platform in self.platforms)

    @cached_property
    def latency_s(self) -> FloatArray:
        """``(m, b)`` latency in seconds of each trial at each SM budget; inf where it failed."""
        return np.array([trial.latency_s for trial in self.trials]).reshape(-1, len(self.platforms))

    @cached_property
    def regret(self) -> FloatArray:
        """``(m,)`` regret of each trial by the objective; inf where it failed at a budget that counts."""
        best_s = self.latency_s.min(axis=0, initial=np.inf)
        with np.errstate(invalid="ignore"):  # inf over inf, where nothing works
            ratio = self.latency_s / best_s
        return np.expm1(self.objective.combine(np.log(np.where(np.isnan(ratio), np.inf, ratio))))

    @cached_property
    def ranked(self) -> tuple[Trial, ...]:
        """Trials from best to worst by the objective, failures last."""
        order = np.lexsort((self.latency_s.sum(axis=1), self.regret))
        return tuple(self.trials[i] for i in order)

    @property
    def best(self) -> Trial:
        """The best trial by the objective: at one SM budget the fastest.

        Raises:
            CostModelError: No trial works at all budgets.
        """
        (only,) = self.portfolio(1)
        return self.trials[only.kernel]

    def portfolio(self, most: int) -> tuple[BudgetRange, ...]:
        """Choose the best portfolio of at most ``most`` kernels; with 1, one kernel for all SM budgets.

        Raises:
            CostModelError: No portfolio of at most ``most`` measured kernels works at all SM budgets.
        """
        self._check_some_work()
        return best_portfolio(self.latency_s, self.objective, most)

    def smallest_portfolio(self, tolerance: float) -> tuple[BudgetRange, ...]:
        """Choose the fewest kernels that are within ``tolerance`` of the best measured at every SM budget.

        Raises:
            CostModelError: No kernel works at some budget.
        """
        return smallest_portfolio(self.latency_s, tolerance, self.objective)

    def free_sms(self, tolerance: float) -> FreeSms:
        """Find the fewest SMs whose best kernel is at most ``tolerance`` slower than on the most SMs.

        Raises:
            CostModelError: No kernel works at some budget.
        """
        return fewest_sms(self.latency_s, self.sms, tolerance)

    def regret_of(self, ranges: Sequence[BudgetRange]) -> FloatArray:
        """Return ``(b,)`` latency of a portfolio over the best measured at each SM budget, minus 1."""
        return np.asarray(served_s(self.latency_s, ranges) / self.latency_s.min(axis=0) - 1.0)

    def progress(self, most: int) -> FloatArray:
        """Return the ``(m,)`` regret of the best portfolio of the first 1, 2, ... m trials.

        Regret is relative to the best of all trials; inf until a portfolio works at all SM budgets.
        """
        best_s = self.latency_s.min(axis=0)
        return np.array([self._regret_so_far(n, most, best_s) for n in range(1, len(self.trials) + 1)])

    def dispatch_table(self, ranges: Sequence[BudgetRange]) -> DispatchTable:
        """Make the dispatch table of a portfolio, for all SMs of the device."""
        device = self.platforms[-1].device
        kernels = [trial.candidate for trial in self.trials]
        return DispatchTable(
            workload=kernels[0].workload,
            device=device,
            objective=self.objective.name.value,
            ranges=dispatch_ranges(kernels, ranges, self.latency_s, self.sms, device.sms),
            provenance=self.provenance,
        )

    def _regret_so_far(self, trials: int, most: int, best_s: FloatArray) -> float:
        latency_s = self.latency_s[:trials]
        try:
            ranges = best_portfolio(latency_s, self.objective, most, best_s=best_s)
        except CostModelError:
            return float("inf")
        return float(np.expm1(self.objective.combine(np.log(served_s(latency_s, ranges) / best_s))))

    def _check_some_work(self) -> None:
        """Say why all trials failed, where all did.

        Raises:
            CostModelError: They did.
        """
        if not np.isfinite(self.latency_s).any():
            errors = sorted({f"{trial.outcomes[0]}: {trial.error}" for trial in self.trials})
            raise CostModelError(
                f"At least one trial must succeed to have a best config, but all {len(self.trials)} failed "
                f"({'; '.join(errors[:3])}). Run more trials, or investigate the failures."
            )
