"""How a chosen kernel does on other SM budgets, beside the choices that one would make without it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.collect import ReplayRunner, Runner
from costmodel.records import Candidate, Outcome, Platform

CHOSEN, WHOLE_CHOICE, BEST_KNOWN = "chosen", "whole-device choice", "best known"


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


def recorded_curves(runner: ReplayRunner, chosen: Candidate) -> list[BudgetCurve]:
    """Curves of the best known, of the candidate that is fastest on the whole device, and of the chosen one.

    The best known is another candidate at each budget: the fastest of all that were recorded there. The
    second curve is left out where the whole device was not recorded.
    """
    latencies = {sms: _latencies(runner, runner.platform(sms)) for sms in runner.budgets}
    whole = latencies.get(runner.platform(runner.budgets[-1]).device.sms, {})
    picked = {WHOLE_CHOICE: min(whole, key=whole.__getitem__)} if whole else {}
    picked[CHOSEN] = chosen.candidate_id
    best = BudgetCurve(BEST_KNOWN, {sms: min(at.values()) for sms, at in latencies.items() if at})
    return [best] + [
        BudgetCurve(label, {sms: at[picked_id] for sms, at in latencies.items() if picked_id in at})
        for label, picked_id in picked.items()
    ]


def _latencies(runner: ReplayRunner, platform: Platform) -> dict[str, float]:
    """Seconds of each candidate that was recorded as ok, by its id."""
    measured = runner.measure(runner.recorded(platform), platform)
    return {m.candidate.candidate_id: m.latency_s for m in measured if m.outcome is Outcome.OK}
