"""What ``costmodel tune`` says of a search for one SM budget: a table, an answer, pictures and JSON."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.table import Table

from costmodel.cli._output import console
from costmodel.cli._tune_words import budget, decisions, launches, microseconds, origin, unit_of
from costmodel.search import (
    BEST_KNOWN,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    PredictedPoints,
    ProgressCurve,
    ReportTable,
    SearchReport,
    TunedTrial,
    TuneResult,
    plot_curves,
)

_RATIOS = {BEST_KNOWN: "x best", WHOLE_CHOICE: "x whole"}


def print_report(result: TuneResult, curves: Sequence[BudgetCurve]) -> None:
    """Print the trials from the fastest to the slowest, the answer, and where it came from.

    The last columns are the measured latency as a multiple of the best known and of the whole-device choice.
    """
    known = _known(result, curves)
    print_table(_trials(result, known))
    console.print("\n".join(_answer(result, known)), soft_wrap=True, highlight=False)


def print_table(table: ReportTable) -> None:
    """Print a table of a report on the terminal."""
    shown = Table(box=SIMPLE_HEAD)
    for name in table.header:
        long = name == "grid x block"  # the one column that may be long
        shown.add_column(name, justify="left" if long else "right", no_wrap=not long)
    for row in table.rows:
        shown.add_row(*row)
    console.print(shown)


def draw(path: Path, result: TuneResult, curves: Sequence[BudgetCurve]) -> None:
    """Draw the curves, and say where."""
    plot_curves(
        path,
        curves,
        title=_title(result),
        unit=unit_of(result.platform),
        sms=[result.platform.sms_granted],
    )
    console.print(f"Picture: {path}", soft_wrap=True, highlight=False)


def as_json(result: TuneResult, curves: Sequence[BudgetCurve]) -> dict[str, Any]:
    """Everything: trials in the order of measurement, the best one, curves over SM budgets, provenance."""
    return {
        "workload": result.best.candidate.workload.name,
        "platform": result.platform,
        "best": result.best,
        "best_config_id": result.best.candidate.config.config_id,
        "trials": result.trials,
        "latency_s_by_sms": {curve.label: curve.latency_s for curve in curves},
        "provenance": result.provenance,
    }


def as_report(result: TuneResult, curves: Sequence[BudgetCurve]) -> SearchReport:
    """Everything for a page."""
    known = _known(result, curves)
    measured = np.array([trial.latency_s for trial in result.trials])
    progress = ProgressCurve(1e6 * measured, 1e6 * np.minimum.accumulate(measured), "latency (µs)")
    told = [t for t in result.trials if t.predicted_latency_s is not None and math.isfinite(t.latency_s)]
    points = PredictedPoints(
        result.platform.sms_granted,
        np.array([t.predicted_latency_s for t in told], dtype=np.float64),
        np.array([t.latency_s for t in told]),
    )
    return SearchReport(
        title=_title(result),
        answer=_answer(result, known),
        tables=[_trials(result, known)],
        curves=curves,
        sms=[result.platform.sms_granted],
        unit=unit_of(result.platform),
        progress=progress,
        predictions=[points] if told else [],
        provenance=result.provenance,
    )


def _title(result: TuneResult) -> str:
    device, workload = result.platform.device, result.best.candidate.workload.name
    return f"{workload}\non {device.name}, chosen for {budget(result.platform)}"


def _trials(result: TuneResult, known: Mapping[str, float]) -> ReportTable:
    """The trials from the fastest to the slowest."""
    header = ("rank", "trial", "config", "grid x block", "predicted\nus", "measured\nus")
    rows = [_row(rank, trial, known) for rank, trial in enumerate(result.ranked, start=1)]
    return ReportTable("Candidates measured", (*header, *(_RATIOS[label] for label in known)), rows)


def _row(rank: int, trial: TunedTrial, known: Mapping[str, float]) -> list[str]:
    ok = math.isfinite(trial.latency_s)
    return [
        str(rank),
        str(trial.number),
        trial.candidate.config.config_id[:8],
        launches(trial.candidate),
        microseconds(trial.predicted_latency_s),
        microseconds(trial.latency_s) if ok else trial.outcome.value,
        *(f"{trial.latency_s / latency_s:.2f}" if ok else "" for latency_s in known.values()),
    ]


def _answer(result: TuneResult, known: Mapping[str, float]) -> list[str]:
    """The answer and its provenance, in sentences."""
    best, platform = result.best, result.platform
    where = f"{budget(platform)} of {platform.device.name}"
    name = best.candidate.config.config_id[:8]
    return [
        f"Run {name}: {microseconds(best.latency_s)} us on {where}{_gains(best, known)}.",
        f"It is {decisions(best.candidate)}.",
        origin(result.provenance),
    ]


def _gains(best: TunedTrial, known: Mapping[str, float]) -> str:
    """How the best trial compares with what is known."""
    gains = ""
    if WHOLE_CHOICE in known:
        gains += f", {known[WHOLE_CHOICE] / best.latency_s:.2f}x as fast as the {WHOLE_CHOICE}"
    if BEST_KNOWN in known:
        excess = best.latency_s / known[BEST_KNOWN] - 1
        gains += f", {100 * excess:.1f} % above the {BEST_KNOWN}" if excess > 0 else f", the {BEST_KNOWN}"
    return gains


def _known(result: TuneResult, curves: Sequence[BudgetCurve]) -> dict[str, float]:
    """Seconds of the other choices on the platform that was tuned for."""
    sms = result.platform.sms_granted
    return {c.label: c.latency_s[sms] for c in curves if c.label != CHOSEN and sms in c.latency_s}
