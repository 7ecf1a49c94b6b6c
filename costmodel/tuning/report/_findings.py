"""What follows from a search: the kernels to run, and how they compare with other choices."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from costmodel.records._workload import Workload
from costmodel.search._dispatch import DispatchTable
from costmodel.search._objective import FreeSms
from costmodel.search._portfolio import BudgetRange
from costmodel.search._result import SearchResult
from costmodel.shadow._service_report import ServiceReport
from costmodel.tuning.report._curves import BEST_KNOWN, CHOSEN, BudgetCurve
from costmodel.tuning.report._words import budget, unit_of


@dataclass(frozen=True, repr=False)
class Findings:
    """A search over one or several SM budgets and what follows from it.

    Attributes:
        search: What was measured.
        ranges: The chosen kernels, and the budgets that each is for.
        most: Kernels that were allowed.
        free: The fewest SMs that are enough; None where that was not asked.
        curves: Latency over SM budgets of the choice and of others; none where nobody measured them.
        left_out: Why a source was left out, by its name.
        service: What a service beside it lost; None where there was none.
    """

    search: SearchResult
    ranges: tuple[BudgetRange, ...]
    most: int
    free: FreeSms | None
    curves: Sequence[BudgetCurve]
    left_out: Mapping[str, str] = field(default_factory=dict)
    service: ServiceReport | None = None

    @cached_property
    def dispatch_table(self) -> DispatchTable:
        """Which kernel to run for the SMs that are granted, for all SMs of the device."""
        return self.search.dispatch_table(self.ranges)

    @property
    def workload(self) -> Workload:
        """What was tuned."""
        return self.search.trials[0].candidate.workload

    @property
    def unit(self) -> str:
        """What a budget counts."""
        return unit_of(self.search.platforms[-1])

    @property
    def title(self) -> str:
        """Workload, device and budgets, in two lines."""
        *smaller, largest = self.search.platforms
        budgets = ", ".join([*(str(platform.sms_granted) for platform in smaller), budget(largest)])
        return f"{self.workload.name}\non {largest.device.name}, chosen for {budgets}"

    @property
    def others(self) -> Mapping[str, Mapping[int, float]]:
        """Seconds of the other choices, by whose they are and then by SMs."""
        return {curve.label: curve.latency_s for curve in self.curves if curve.label != CHOSEN}

    @property
    def best_known(self) -> Mapping[int, float]:
        """Seconds of the fastest that is recorded at each SM budget, by SMs; empty where nothing is."""
        return self.others.get(BEST_KNOWN, {})
