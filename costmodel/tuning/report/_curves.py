"""How a chosen kernel does on other SM budgets, beside the choices that one would make without it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from costmodel.arrays import FloatArray
from costmodel.collector.runners._base import Runner
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome
from costmodel.records._platform import Platform
from costmodel.search._portfolio import BudgetRange, served_s
from costmodel.search._result import SearchResult

CHOSEN, WHOLE_CHOICE, BEST_KNOWN = "chosen", "whole-device choice", "best known"
# What the library takes where it was recorded, but not asked for.
LIBRARY = "the library"
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
