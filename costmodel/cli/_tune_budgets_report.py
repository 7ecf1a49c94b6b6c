"""What ``costmodel tune`` says of a search for several SM budgets: tables, answers, pictures and JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.cli._output import console
from costmodel.cli._tune_report import print_table
from costmodel.cli._tune_words import decisions, launches, microseconds, origin, unit_of
from costmodel.search import (
    BudgetCurve,
    BudgetRange,
    BudgetsResult,
    BudgetsTrial,
    DispatchTable,
    FreeSms,
    ObjectiveName,
    PredictedPoints,
    ProgressCurve,
    ReportTable,
    SearchReport,
    plot_curves,
)

_REGRETS = {
    ObjectiveName.WORST_REGRET: "worst regret",
    ObjectiveName.MEAN: "mean regret",
    ObjectiveName.WEIGHTED: "weighted mean regret",
}


@dataclass(frozen=True)
class BudgetsAnswer:
    """A search for several budgets and what follows from it.

    Attributes:
        result: The search.
        ranges: The chosen kernels.
        most: Kernels that were allowed.
        table: Their dispatch table.
        free: The fewest SMs that are enough; None where that was not asked.
        curves: Latency over SM budgets.
    """

    result: BudgetsResult
    ranges: tuple[BudgetRange, ...]
    most: int
    table: DispatchTable
    free: FreeSms | None
    curves: Sequence[BudgetCurve]

    @property
    def unit(self) -> str:
        """What a budget counts."""
        return unit_of(self.result.platforms[-1])

    @property
    def title(self) -> str:
        """Of a picture or a page."""
        device = self.result.platforms[-1].device
        budgets = ", ".join(map(str, self.result.sms))
        return f"{self.table.workload.name}\non {device.name}, chosen for {budgets} {self.unit}"


def print_budgets_report(answer: BudgetsAnswer) -> None:
    """Print the trials from the best to the worst, the chosen kernels, and where they came from."""
    print_table(_trials(answer))
    print_table(_chosen(answer))
    console.print("\n".join(_sentences(answer)), soft_wrap=True, highlight=False)


def draw_budgets(path: Path, answer: BudgetsAnswer) -> None:
    """Draw the curves, and say where."""
    plot_curves(path, answer.curves, title=answer.title, unit=answer.unit, sms=answer.result.sms)
    console.print(f"Picture: {path}", soft_wrap=True, highlight=False)


def budgets_json(answer: BudgetsAnswer) -> dict[str, Any]:
    """Everything: trials in the order of measurement, chosen kernels, curves over SM budgets, provenance."""
    result = answer.result
    return {
        "workload": answer.table.workload.name,
        "platforms": result.platforms,
        "objective": result.objective,
        "chosen": answer.table.ranges,
        "regret": dict(zip(result.sms, result.regret(answer.ranges).tolist(), strict=True)),
        "free_sms": answer.free and _free_json(result, answer.free),
        "trials": result.trials,
        "latency_s_by_sms": {curve.label: curve.latency_s for curve in answer.curves},
        "provenance": result.provenance,
    }


def budgets_page(answer: BudgetsAnswer) -> SearchReport:
    """Everything for a page."""
    result = answer.result
    regrets = 100.0 * np.append(result.progress(answer.most), np.nan)[:-1]
    kernels = "one kernel" if answer.most == 1 else f"at most {answer.most} kernels"
    regret = _REGRETS[result.objective.name]
    return SearchReport(
        title=answer.title,
        answer=_sentences(answer),
        tables=[_chosen(answer), _trials(answer)],
        curves=answer.curves,
        sms=result.sms,
        unit=answer.unit,
        progress=ProgressCurve(np.empty(0), regrets, f"{regret} of {kernels} (%)"),
        predictions=_predictions(result),
        provenance=result.provenance,
    )


def _predictions(result: BudgetsResult) -> list[PredictedPoints]:
    """Predicted against measured latency, by budget."""
    told = [t for t in result.trials if t.predicted_latency_s is not None]
    predicted = np.array([t.predicted_latency_s for t in told], dtype=np.float64)
    measured = np.array([t.latency_s for t in told], dtype=np.float64)
    return [
        PredictedPoints(sms, predicted[ok, i], measured[ok, i])
        for i, sms in enumerate(result.sms)
        if told and (ok := np.isfinite(measured[:, i])).any()
    ]


def _chosen(answer: BudgetsAnswer) -> ReportTable:
    """The chosen kernels and where each runs."""
    header = (answer.unit, "config", "grid x block", "measured at", "measured\nus", "above best\n%")
    rows = []
    for part, chosen in zip(answer.ranges, answer.table.ranges, strict=True):
        rows.append(
            [
                _span(chosen.from_sms, chosen.to_sms),
                chosen.config_id[:8],
                launches(answer.result.trials[part.kernel].candidate),
                " ".join(map(str, chosen.latency_s)),
                " ".join(map(microseconds, chosen.latency_s.values())),
                " ".join(f"{100 * regret:.1f}" for regret in chosen.regret.values()),
            ]
        )
    return ReportTable("Kernels to run", header, rows)


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def _trials(answer: BudgetsAnswer) -> ReportTable:
    """The trials by their regret over all budgets, failures last."""
    result = answer.result
    regret = result.objective.regret(result.latency_s)
    header = (
        "rank",
        "trial",
        "config",
        "grid x block",
        "regret\n%",
        *(f"us on\n{sms}" for sms in result.sms),
    )
    order = np.argsort(regret, kind="stable")
    rows = [_row(rank, result.trials[i], regret[i]) for rank, i in enumerate(order, start=1)]
    return ReportTable("Candidates measured", header, rows)


def _row(rank: int, trial: BudgetsTrial, regret: float) -> list[str]:
    return [
        str(rank),
        str(trial.number),
        trial.candidate.config.config_id[:8],
        launches(trial.candidate),
        f"{100 * regret:.1f}" if np.isfinite(regret) else "",
        *(
            microseconds(latency_s) if np.isfinite(latency_s) else outcome.value
            for latency_s, outcome in zip(trial.latency_s, trial.outcomes, strict=True)
        ),
    ]


def _sentences(answer: BudgetsAnswer) -> list[str]:
    """The answer and its provenance, in sentences."""
    result, regret = answer.result, answer.result.regret(answer.ranges)
    device = result.platforms[-1].device.name
    mean = np.expm1(np.log1p(regret).mean())
    kernels = sorted({part.config_id[:8]: None for part in answer.table.ranges})
    sentences = [
        f"Run {', '.join(kernels)} on {device}: at most {100 * regret.max():.1f} % above the best measured "
        f"at each of {len(result.sms)} budgets, {100 * mean:.1f} % in the geometric mean."
    ]
    if whole := _whole_choice(result):
        sentences.append(whole)
    if answer.free:
        sentences.append(_freed(answer, answer.free))
    shown = {part.config_id[:8]: result.trials[r.kernel].candidate for part, r in _pairs(answer)}
    sentences += [f"{name} is {decisions(candidate)}." for name, candidate in shown.items()]
    return [*sentences, origin(result.provenance)]


def _pairs(answer: BudgetsAnswer) -> list[tuple[Any, BudgetRange]]:
    return list(zip(answer.table.ranges, answer.ranges, strict=True))


def _whole_choice(result: BudgetsResult) -> str:
    """What the kernel costs that is best on most SMs, where it works everywhere."""
    whole = int(result.latency_s[:, -1].argmin())
    ratio = result.latency_s[whole] / result.latency_s.min(axis=0)
    if not np.isfinite(ratio).all():
        return ""
    return (
        f"The kernel that is best on {result.sms[-1]} is up to {100 * (ratio.max() - 1):.1f} % above the "
        f"best, {100 * (np.exp(np.log(ratio).mean()) - 1):.1f} % in the geometric mean."
    )


def _freed(answer: BudgetsAnswer, free: FreeSms) -> str:
    """The fewest SMs that are enough, in a sentence."""
    result = answer.result
    few, whole = result.sms[free.budget], result.sms[-1]
    name = result.trials[free.kernel].candidate.config.config_id[:8]
    return (
        f"{few} of {whole} {answer.unit} are enough: {name} runs there in "
        f"{microseconds(result.latency_s[free.kernel, free.budget])} us, {100 * free.cost:+.1f} % against "
        f"the best on {whole}; {whole - few} are free."
    )


def _free_json(result: BudgetsResult, free: FreeSms) -> dict[str, Any]:
    candidate = result.trials[free.kernel].candidate
    return {
        "sms": result.sms[free.budget],
        "freed": result.sms[-1] - result.sms[free.budget],
        "config_id": candidate.config.config_id,
        "config": candidate.config,
        "latency_s": float(result.latency_s[free.kernel, free.budget]),
        "cost": free.cost,
    }
