"""What follows from a search: the kernels to run, and how they do beside other choices at each SM budget."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from costmodel.arrays import FloatArray
from costmodel.collector.runners._base import Runner
from costmodel.records._candidate import Candidate, Decision
from costmodel.records._measurement import Outcome
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload
from costmodel.report._page import format_three_digits
from costmodel.search._dispatch import DispatchTable
from costmodel.search._objective import FreeSms
from costmodel.search._portfolio import BudgetRange, served_s
from costmodel.search._provenance import Provenance
from costmodel.search._result import SearchResult
from costmodel.search._trial import Trial

CHOSEN, WHOLE_CHOICE, BEST_KNOWN = "chosen", "whole-device choice", "best known"
# What the library takes where it was recorded, but not asked for.
LIBRARY = "the library"
# Beside three others on an H100, the kernel that won was at worst 8 % behind the best.
_FINALISTS = 3
# Best of what a search measured, where nobody knows more.
BEST_MEASURED = "best measured"


@dataclass(frozen=True)
class BudgetCurve:
    """Latency of one way to choose, over SM budgets.

    Attributes:
        label: Whose choice.
        latency_s: Seconds at each SM budget; budgets without a successful measurement are left out.
    """

    label: str
    latency_s: Mapping[int, float]


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
        remarks: What the runner says of how measuring went.
    """

    search: SearchResult
    ranges: tuple[BudgetRange, ...]
    most: int
    free: FreeSms | None
    curves: Sequence[BudgetCurve]
    left_out: Mapping[str, str] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

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


def measured_curve(
    runner: Runner, label: str, candidate: Candidate, platforms: Sequence[Platform]
) -> BudgetCurve:
    """Measure one candidate on each platform."""
    measured = [runner.measure([candidate], platform)[0] for platform in platforms]
    ok = [m for m in measured if m.outcome is Outcome.OK]
    return BudgetCurve(label, {m.platform.sms_granted: m.latency_s for m in ok})


def recorded_curves(
    known: Mapping[int, Mapping[str, float]],
    whole_sms: int,
    chosen: Callable[[int], Candidate],
    library: Mapping[int, Mapping[str, float]] | None = None,
) -> list[BudgetCurve]:
    """Curves of the best known, of the candidate that is fastest on the whole device, and of the chosen.

    The best known is another candidate at each budget: the fastest of all that were recorded there. The
    second curve is left out where the whole device was not recorded.

    Args:
        known: Recorded seconds of what could be chosen, as ``Runner.known_latencies`` gives them.
        whole_sms: SMs of the whole device.
        chosen: The candidate chosen for so many granted SMs, such as ``DispatchTable.kernel_for``.
        library: Recorded seconds of the library's calls where they could not be chosen; they get a curve of
            their own, first of all.
    """
    whole = known.get(whole_sms, {})
    picked = {WHOLE_CHOICE: dict.fromkeys(known, min(whole, key=whole.__getitem__))} if whole else {}
    picked[CHOSEN] = {sms: chosen(sms).candidate_id for sms in known}
    fastest = {LIBRARY: library or {}, BEST_KNOWN: known}
    return [
        BudgetCurve(label, {sms: min(at.values()) for sms, at in of.items()})
        for label, of in fastest.items()
        if of
    ] + [
        BudgetCurve(label, {sms: at[ids[sms]] for sms, at in known.items() if ids[sms] in at})
        for label, ids in picked.items()
    ]


def searched_curves(result: SearchResult, ranges: Sequence[BudgetRange]) -> list[BudgetCurve]:
    """Curves over the budgets of a search, of what it measured itself.

    The best measured at each budget; the kernel that is best on the whole device, where that is one of the
    budgets; and the chosen ones.
    """
    curves = [_curve(BEST_MEASURED, result, result.latency_s.min(axis=0))]
    if result.sms[-1] == result.platforms[-1].device.sms:
        whole = int(result.latency_s[:, -1].argmin())
        curves.append(_curve(WHOLE_CHOICE, result, result.latency_s[whole]))
    return [*curves, _curve(CHOSEN, result, served_s(result.latency_s, ranges))]


def _curve(label: str, result: SearchResult, latency_s: FloatArray) -> BudgetCurve:
    pairs = zip(result.sms, latency_s.tolist(), strict=True)
    return BudgetCurve(label, {sms: latency for sms, latency in pairs if math.isfinite(latency)})


def decisions(candidate: Candidate) -> str:
    """All decisions of a config."""
    return ", ".join(f"{name} {_value(value)}" for name, value in candidate.config.decisions.items())


def launches(candidate: Candidate) -> str:
    """Grid and block sizes of the kernels; empty where nobody knows them, as of a library's call."""
    return " + ".join(f"{each.blocks}x{each.threads_per_block}" for each in candidate.launches if each.blocks)


def microseconds(latency_s: float | None) -> str:
    """Microseconds with three or more digits; empty where unknown."""
    return "" if latency_s is None else format_three_digits(1e6 * latency_s)


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

    counts = [f"{provenance.n_measurements} candidates measured", f"{provenance.n_screened} screened"]
    counts[1:1] = [f"{count} compiled" for count in told("compiled")]
    measured = ", ".join(counts)
    data = "".join(f", data {sha256[:12]}" for sha256 in told("dataset_sha256"))
    yield f"From: {measured}; costmodel {provenance.versions['costmodel']}{data}."
    for source, known in of_source.items():
        if known.get("trained_on") == "nothing":
            yield f"{source.capitalize()}: nothing before this search; it learned from its own measurements."
        elif "trained_on" in known:
            yield f"{source.capitalize()}: {known['model']}, trained on {known['trained_on']}."
    yield from (f"Left out: {left_out}." for left_out in told("left_out"))


def _value(value: Decision) -> str:
    """A decision in one word."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def with_finalists_alone(runner: Runner, result: SearchResult, most: int) -> SearchResult:
    """A result whose best kernels have the latencies that they have alone on the device.

    These are three or more: it goes on until every kernel that is chosen was measured alone. What the study
    was told stays as it is.

    Args:
        runner: What measured.
        result: What it measured.
        most: Kernels that may be chosen.
    """
    alone = runner.alone
    is_whole = all(platform.sms_granted == platform.device.sms for platform in result.platforms)
    if alone is runner or is_whole:  # a whole device is measured alone anyway
        return result
    done: set[int] = set()
    while left := _finalists(result, most) - done:
        trials = [
            _measure_alone(alone, result, trial) if i in left else trial
            for i, trial in enumerate(result.trials)
        ]
        done |= left
        result = replace(result, trials=tuple(trials), finalists=tuple(sorted(done)))
    return result


def _finalists(result: SearchResult, most: int) -> set[int]:
    """Positions of the best trials, and of those that are chosen."""
    positions = {trial.number: i for i, trial in enumerate(result.trials)}
    best = [positions[trial.number] for trial in result.ranked if max(trial.latency_s) < float("inf")]
    return {part.kernel for part in result.portfolio(most)}.union(best[:_FINALISTS])


def _measure_alone(runner: Runner, result: SearchResult, trial: Trial) -> Trial:
    """A trial as it is measured alone at every SM budget."""
    measured = [one for platform in result.platforms for one in runner.measure([trial.candidate], platform)]
    errors = [one.error for one in measured if one.error]
    return replace(
        trial,
        outcomes=tuple(one.outcome for one in measured),
        latency_s=tuple(one.latency_s for one in measured),
        error=errors[0] if errors else "",
    )
