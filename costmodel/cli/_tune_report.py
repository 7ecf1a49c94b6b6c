"""What ``costmodel tune`` says: a table, an answer, a picture and JSON."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table

from costmodel.cli._output import console
from costmodel.records import Candidate, Decision, Platform
from costmodel.search import (
    BEST_KNOWN,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
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
    table = Table(box=SIMPLE_HEAD)
    for name in ("rank", "trial", "config", "grid x block", "predicted\nus", "measured\nus"):
        launches = name == "grid x block"  # the one column that may be long
        table.add_column(name, justify="left" if launches else "right", no_wrap=not launches)
    for label in known:
        table.add_column(_RATIOS[label], justify="right", no_wrap=True)
    for rank, trial in enumerate(result.ranked, start=1):
        ok = math.isfinite(trial.latency_s)
        table.add_row(
            str(rank),
            str(trial.number),
            trial.candidate.config.config_id[:8],
            _launches(trial.candidate),
            _microseconds(trial.predicted_latency_s),
            _microseconds(trial.latency_s) if ok else trial.outcome.value,
            *(f"{trial.latency_s / latency_s:.2f}" if ok else "" for latency_s in known.values()),
        )
    console.print(table)
    console.print(_answer(result, known), soft_wrap=True, highlight=False)


def draw(path: Path, result: TuneResult, curves: Sequence[BudgetCurve]) -> None:
    """Draw the curves, and say where."""
    device, workload = result.platform.device, result.best.candidate.workload.name
    plot_curves(
        path,
        curves,
        title=f"{workload}\non {device.name}, chosen for {_budget(result.platform)}",
        unit=_unit(result.platform),
        sms=result.platform.sms_granted,
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


def _answer(result: TuneResult, known: Mapping[str, float]) -> str:
    """The answer and its provenance, in sentences."""
    best, platform, provenance = result.best, result.platform, result.provenance
    where = f"{_budget(platform)} of {platform.device.name}"
    config = best.candidate.config
    decisions = ", ".join(f"{name} {_value(value)}" for name, value in config.decisions.items())
    shown = {k: v[:12] if k.endswith("sha256") else v for k, v in provenance.knowledge.items()}
    facts = ", ".join(f"{name} {value}" for name, value in shown.items())
    versions = ", ".join(f"{name} {value}" for name, value in provenance.versions.items())
    measured = f"{provenance.n_measurements} of {provenance.n_screened} candidates measured"
    return (
        f"Run {config.config_id[:8]}: {_microseconds(best.latency_s)} us on {where}{_gains(best, known)}.\n"
        f"It is {decisions}.\n"
        f"From: {measured}; {facts}; {versions}."
    )


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


def _launches(candidate: Candidate) -> str:
    """Grid and block sizes of the kernels."""
    return " + ".join(f"{launch.blocks}x{launch.threads_per_block}" for launch in candidate.launches)


def _value(value: Decision) -> str:
    """A decision on one word."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _microseconds(latency_s: float | None) -> str:
    """Microseconds with three or more digits; empty where unknown."""
    return (
        ""
        if latency_s is None
        else f"{1e6 * latency_s:#.3g}"
        if latency_s < 1e-4
        else f"{1e6 * latency_s:.0f}"
    )


def _budget(platform: Platform) -> str:
    """Such as ``32 SMs``."""
    unit = _unit(platform)
    return f"1 {unit.removesuffix('s')}" if platform.sms_granted == 1 else f"{platform.sms_granted} {unit}"


def _unit(platform: Platform) -> str:
    """What a budget counts."""
    return "threads" if platform.device.kind == "cpu" else "SMs"
