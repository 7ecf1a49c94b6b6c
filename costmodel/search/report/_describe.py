"""What a tracked run keeps of a search."""

from collections.abc import Container, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.records import Outcome
from costmodel.search._budgets_result import BudgetsResult, BudgetsTrial
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search.portfolio import BudgetRange, save_dispatch_table
from costmodel.search.report._comparison import BEST_KNOWN, WHOLE_CHOICE, BudgetCurve
from costmodel.search.report._plot import curves_figure, predictions_figure, progress_figure
from costmodel.search.report._report import SearchReport, write_report
from costmodel.tracking import Artifact, Item, Metric, Note, Table, Tag

# Names of a metric, and the curve of another choice that the latency found is divided by.
_RATIOS = {"latency_over_best_known": BEST_KNOWN, "latency_over_whole_choice": WHOLE_CHOICE}


def describe_trial(trial: TunedTrial | BudgetsTrial, sms: Sequence[int]) -> Iterator[Metric]:
    """What one trial measured; its step is its number, so that trials make a curve.

    Args:
        trial: The trial.
        sms: Budgets that it was measured on.
    """
    for budget, (_, latency_s) in zip(sms, _by_budget(trial), strict=True):
        yield Metric(f"trial/latency_us on {budget}", 1e6 * latency_s, trial.number)


def describe_search(
    result: TuneResult, curves: Sequence[BudgetCurve], told: Container[int]
) -> Iterator[Item]:
    """What a search for one SM budget found.

    Args:
        result: The search.
        curves: Latency over SM budgets of this choice and others.
        told: Numbers of the trials that were logged when they were measured.
    """
    sms = result.platform.sms_granted
    best_s = result.best.latency_s
    yield Metric("best_latency_us", 1e6 * best_s)
    yield Metric("trials", len(result.trials))
    yield Metric("failed_trials", sum(not np.isfinite(trial.latency_s) for trial in result.trials))
    others = {curve.label: curve.latency_s.get(sms, np.nan) for curve in curves}
    for name, label in _RATIOS.items():
        yield Metric(name, best_s / others.get(label, np.nan))
    best_so_far = np.minimum.accumulate([trial.latency_s for trial in result.trials])
    for trial, latency_s in zip(result.trials, best_so_far, strict=True):
        yield Metric("trial/best_so_far_us", 1e6 * latency_s, trial.number)
        if trial.number not in told:
            yield from describe_trial(trial, [sms])
    yield Tag("headline", "best_latency_us")
    yield Tag("best_config_id", result.best.candidate.config.config_id)
    yield Table("tables/trials.csv", pd.DataFrame([_row(trial, [sms]) for trial in result.trials]))


def describe_budgets_search(
    result: BudgetsResult, ranges: Sequence[BudgetRange], told: Container[int]
) -> Iterator[Item]:
    """What a search for several SM budgets found.

    Args:
        result: The search.
        ranges: The kernels that were chosen.
        told: As of ``describe_search``.
    """
    regret = result.regret(ranges)
    yield Metric("worst_regret", float(regret.max()))
    yield Metric("mean_regret", float(np.expm1(np.log1p(regret).mean())))
    yield Metric("kernels", len({part.kernel for part in ranges}))
    yield Metric("trials", len(result.trials))
    for part in ranges:
        for i in part.budgets:
            yield Metric("by_sms/latency_us", 1e6 * float(result.latency_s[part.kernel, i]), result.sms[i])
            yield Metric("by_sms/regret", float(regret[i]), result.sms[i])
    for trial, value in zip(result.trials, result.progress(len(ranges)), strict=True):
        yield Metric("trial/regret_so_far", value, trial.number)
        if trial.number not in told:
            yield from describe_trial(trial, result.sms)
    yield Tag("headline", "worst_regret")
    yield Table("tables/trials.csv", pd.DataFrame([_row(trial, result.sms) for trial in result.trials]))
    table = result.dispatch_table(ranges)
    yield Artifact("dispatch.json", partial(save_dispatch_table, table))


def describe_page(report: SearchReport) -> Iterator[Item]:
    """The answer in sentences, the pictures of a report and its page, and where the answer came from."""
    yield Note("\n\n".join(report.answer))
    yield from _provenance(report.provenance)
    if report.curves:
        figure = curves_figure(report.curves, unit=report.unit, sms=report.sms)
        yield _picture("plots/latency_by_sms.png", figure)
    yield _picture("plots/best_so_far.png", progress_figure(report.progress))
    if report.predictions:
        figure = predictions_figure(report.predictions, unit=report.unit)
        yield _picture("plots/predicted_and_measured.png", figure)
    yield Artifact("report.html", partial(write_report, report))


def _provenance(provenance: Provenance) -> Iterator[Tag]:
    yield Tag("measured_by", provenance.runner)
    yield Tag("space", provenance.space_id)
    yield Tag("screened", str(provenance.n_screened))
    yield from (Tag(f"knowledge.{name}", value) for name, value in provenance.knowledge.items())


def _picture(path: str, figure: Any) -> Artifact:
    def write(file: Path) -> None:
        figure.savefig(file, dpi=130)

    return Artifact(path, write)


def _row(trial: TunedTrial | BudgetsTrial, sms: Sequence[int]) -> dict[str, Any]:
    """A trial as a row of a table; a latency that there is not is empty."""
    measured = list(zip(sms, _by_budget(trial), strict=True))
    return {
        "trial": trial.number,
        "config_id": trial.candidate.config.config_id,
        **{f"outcome_{budget}": outcome.value for budget, (outcome, _) in measured},
        **{f"latency_us_{budget}": _microseconds(latency_s) for budget, (_, latency_s) in measured},
        "error": trial.error,
        "config": repr(trial.candidate.config.decisions),
    }


def _by_budget(trial: TunedTrial | BudgetsTrial) -> list[tuple[Outcome, float]]:
    """How a trial ended and its seconds, on each budget."""
    if isinstance(trial, TunedTrial):
        return [(trial.outcome, trial.latency_s)]
    return list(zip(trial.outcomes, trial.latency_s, strict=True))


def _microseconds(latency_s: float) -> float:
    return 1e6 * latency_s if np.isfinite(latency_s) else np.nan
