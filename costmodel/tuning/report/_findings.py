"""What follows from a search: the kernels to run, and how they compare with other choices."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from costmodel.collector.runners._service_watch import ServiceReport
from costmodel.records._candidate import Candidate, Decision
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.search._dispatch import DispatchTable
from costmodel.search._objective import FreeSms
from costmodel.search._portfolio import BudgetRange
from costmodel.search._provenance import Provenance
from costmodel.search._result import SearchResult
from costmodel.tuning.report._curves import BEST_KNOWN, CHOSEN, BudgetCurve


def decisions(candidate: Candidate) -> str:
    """All decisions of a config."""
    return ", ".join(f"{name} {_value(value)}" for name, value in candidate.config.decisions.items())


def launches(candidate: Candidate) -> str:
    """Grid and block sizes of the kernels; empty where nobody knows them, as of a library's call."""
    return " + ".join(f"{each.blocks}x{each.threads_per_block}" for each in candidate.launches if each.blocks)


def microseconds(latency_s: float | None) -> str:
    """Microseconds with three or more digits; empty where unknown."""
    return "" if latency_s is None else _three_digits(1e6 * latency_s)


def milliseconds(latency_s: float) -> str:
    """Milliseconds with three or more digits."""
    return _three_digits(1e3 * latency_s)


def budget(platform: Platform) -> str:
    """Such as ``32 SMs``; ``all SMs`` of a device of which nobody knows how many it has."""
    unit = unit_of(platform)
    if platform.sms_granted == 0:
        return f"all {unit}"
    return f"1 {unit.removesuffix('s')}" if platform.sms_granted == 1 else f"{platform.sms_granted} {unit}"


def unit_of(platform: Platform) -> str:
    """What a budget counts."""
    return "threads" if platform.device.kind == "cpu" else "SMs"


def origin(provenance: Provenance) -> Iterator[str]:
    """Where an answer came from, each sentence about a line: what measured, and what models knew."""
    of_source: dict[str, dict[str, str]] = {}
    for name, value in provenance.knowledge.items():
        source, _, fact = name.rpartition(" ")
        of_source.setdefault(source or "known", {})[fact] = value

    def told(fact: str) -> list[str]:
        return sorted({known[fact] for known in of_source.values() if fact in known})

    measured = f"{provenance.n_measurements} candidates measured, {provenance.n_screened} screened"
    data = "".join(f", data {sha256[:12]}" for sha256 in told("dataset_sha256"))
    yield f"From: {measured}; costmodel {provenance.versions['costmodel']}{data}."
    for source, known in of_source.items():
        if known.get("trained_on") == "nothing":
            yield f"{source.capitalize()}: nothing before this search; it learned from its own measurements."
        elif "trained_on" in known:
            yield f"{source.capitalize()}: {known['model']}, trained on {known['trained_on']}."
    yield from (f"Left out: {left_out}." for left_out in told("left_out"))


def _three_digits(value: float) -> str:
    """A positive number with three or more digits."""
    return f"{value:#.3g}".removesuffix(".") if value < 100 else f"{value:.0f}"


def _value(value: Decision) -> str:
    """A decision in one word."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


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
