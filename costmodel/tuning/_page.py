"""A search as one HTML file: what was found, tables, pictures, and where the answer came from."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.files import write_whole
from costmodel.report._page import TextTable, figure_html, web_page
from costmodel.search._objective import FreeSms, ObjectiveName
from costmodel.search._provenance import Provenance
from costmodel.search._result import SearchResult
from costmodel.search._trial import Trial
from costmodel.tuning._answer import answer
from costmodel.tuning._figures import (
    PredictedPoints,
    ProgressCurve,
    plot_curves,
    plot_predictions,
    plot_progress,
)
from costmodel.tuning._findings import BEST_KNOWN, WHOLE_CHOICE, BudgetCurve, Findings, launches, microseconds

if TYPE_CHECKING:
    import pandas as pd


# At a single budget, the latency of a trial is also told as a multiple of what others would choose.
_RATIOS = {BEST_KNOWN: "x best", WHOLE_CHOICE: "x whole"}


_STYLE = """th, td { text-align: right; }
figure { margin: 1.5rem 0; }
"""


@dataclass(frozen=True)
class SearchReport:
    """What a report shows.

    Attributes:
        title: Its title.
        answer: Sentences, one a paragraph.
        tables: In order; the first stands above the pictures, the others below.
        curves: Latency over SM budgets; none to leave that picture out.
        sms: Budgets that were tuned for.
        unit: What a budget counts, such as ``SMs``.
        progress: What had been found after each trial.
        predictions: Predicted against measured, by budget; none to leave that picture out.
        provenance: Where the answer came from.
    """

    title: str
    answer: Sequence[str]
    tables: Sequence[TextTable]
    curves: Sequence[BudgetCurve]
    sms: Sequence[int]
    unit: str
    progress: ProgressCurve
    predictions: Sequence[PredictedPoints]
    provenance: Provenance


def render_report(report: SearchReport) -> str:
    """The page. All texts are escaped."""
    parts = [f"<h1>{escape(report.title)}</h1>"]
    parts += [f"<p>{escape(sentence)}</p>" for sentence in report.answer]
    parts += [table.to_html() for table in report.tables[:1]]
    if report.curves:
        figure = plot_curves(report.curves, unit=report.unit, sms=report.sms)
        parts.append(figure_html(figure, f"Latency over {report.unit}; shaded: tuned for"))
    parts.append(figure_html(plot_progress(report.progress), "Best so far"))
    if report.predictions:
        figure = plot_predictions(report.predictions, unit=report.unit)
        parts.append(figure_html(figure, "Predicted against measured; dotted: equal"))
    parts += [table.to_html() for table in (*report.tables[1:], _provenance(report.provenance))]
    return web_page(report.title, "\n".join(parts), _STYLE)


def write_report(report: SearchReport, path: Path) -> None:
    """Write the page, at once; its folder is made.

    Raises:
        CostModelError: The file cannot be written.
    """
    write_whole(path, render_report(report).encode())


def _provenance(provenance: Provenance) -> TextTable:
    facts = {
        "measured by": provenance.runner,
        "candidates measured": str(provenance.n_measurements),
        **provenance.knowledge,
        **{f"version of {name}": version for name, version in provenance.versions.items()},
    }
    return TextTable("Where it came from", ("what", "value"), list(facts.items()))


_REGRETS = {
    ObjectiveName.WORST_REGRET: "worst regret",
    ObjectiveName.MEAN: "mean regret",
    ObjectiveName.WEIGHTED: "weighted mean regret",
}


def page_of(found: Findings) -> SearchReport:
    """Everything for a page."""
    search = found.search
    several = len(search.sms) > 1
    return SearchReport(
        title=found.title,
        answer=answer(found),
        tables=[*([kernels_table(found)] if several else []), trials_table(found)],
        curves=found.curves,
        sms=search.sms,
        unit=found.unit,
        progress=_regret_so_far(found) if several else _best_so_far(search),
        predictions=list(_predictions(search)),
        provenance=search.provenance,
    )


def result_values(found: Findings) -> dict[str, Any]:
    """Everything, by name: chosen kernels, trials in the order of measurement, curves, provenance.

    ``best`` is the one kernel to run; None where several share the budgets.
    """
    search = found.search
    return {
        "workload": found.workload.name,
        "platforms": search.platforms,
        "objective": search.objective,
        "best": search.trials[found.ranges[0].kernel] if len(found.ranges) == 1 else None,
        "chosen": found.dispatch_table.ranges,
        "regret": dict(zip(search.sms, search.regret_of(found.ranges).tolist(), strict=True)),
        "free_sms": found.free and _free(search, found.free),
        "trials": search.trials,
        "latency_s_by_sms": {curve.label: curve.latency_s for curve in found.curves},
        "drifts": search.drifts,
        "provenance": search.provenance,
    }


def _best_so_far(search: SearchResult) -> ProgressCurve:
    """Latency at the only budget, of each trial and of the best."""
    measured = search.latency_s[:, 0]
    return ProgressCurve(1e6 * measured, 1e6 * np.minimum.accumulate(measured), "latency (µs)")


def _regret_so_far(found: Findings) -> ProgressCurve:
    """Regret of the best choice from the trials so far."""
    kernels = "one kernel" if found.most == 1 else f"at most {found.most} kernels"
    label = f"{_REGRETS[found.search.objective.name]} of {kernels} (%)"
    return ProgressCurve(np.empty(0), 100.0 * found.search.progress(found.most), label)


def _predictions(search: SearchResult) -> Iterator[PredictedPoints]:
    """Predicted against measured latency, by budget."""
    told = [trial for trial in search.trials if trial.predicted_latency_s is not None]
    predicted = np.array([trial.predicted_latency_s for trial in told], dtype=np.float64)
    measured = np.array([trial.latency_s for trial in told], dtype=np.float64)
    for i, sms in enumerate(search.sms):
        if told and (ok := np.isfinite(measured[:, i])).any():
            yield PredictedPoints(sms, predicted[ok, i], measured[ok, i])


def _free(search: SearchResult, free: FreeSms) -> dict[str, Any]:
    candidate = search.trials[free.kernel].candidate
    return {
        "sms": search.sms[free.budget],
        "freed": search.sms[-1] - search.sms[free.budget],
        "config_id": candidate.config.config_id,
        "config": candidate.config,
        "latency_s": float(search.latency_s[free.kernel, free.budget]),
        "cost": free.cost,
    }


def trials_table(found: Findings) -> TextTable:
    """The trials from the best to the worst, failures last."""
    columns = [dict(_cells(found, rank, trial)) for rank, trial in enumerate(found.search.ranked, start=1)]
    header = tuple(columns[0])
    form = "".join("l" if name == "grid x block" else "r" for name in header)
    return TextTable("Candidates measured", header, [list(row.values()) for row in columns], form)


def kernels_table(found: Findings) -> TextTable:
    """The chosen kernels and where each runs."""
    header = (found.unit, "config", "grid x block", "measured at", "measured\nus", "above best\n%")
    rows = [
        [
            _span(chosen.from_sms, chosen.to_sms),
            chosen.config_id[:8],
            launches(found.search.trials[part.kernel].candidate),
            " ".join(map(str, chosen.latency_s)),
            " ".join(map(microseconds, chosen.latency_s.values())),
            " ".join(f"{100 * regret:.1f}" for regret in chosen.regret.values()),
        ]
        for part, chosen in zip(found.ranges, found.dispatch_table.ranges, strict=True)
    ]
    return TextTable("Kernels to run", header, rows, "rrlrrr")


def _cells(found: Findings, rank: int, trial: Trial) -> Iterator[tuple[str, str]]:
    """Names of columns and what stands in them in the row of a trial."""
    search = found.search
    yield "rank", str(rank)
    yield "trial", str(trial.number)
    if len({each.candidate.source for each in search.trials}) > 1:
        yield "source", trial.candidate.source
    yield "config", trial.candidate.config.config_id[:8]
    yield "grid x block", launches(trial.candidate)
    latencies = [
        microseconds(latency_s) if math.isfinite(latency_s) else outcome.value
        for latency_s, outcome in zip(trial.latency_s, trial.outcomes, strict=True)
    ]
    if len(search.sms) > 1:
        regret = search.regret[search.trials.index(trial)]
        yield "regret\n%", f"{100 * regret:.1f}" if math.isfinite(regret) else ""
        yield from ((f"us on\n{sms}", latency) for sms, latency in zip(search.sms, latencies, strict=True))
        return
    predicted = trial.predicted_latency_s
    yield "predicted\nus", microseconds(predicted[0] if predicted else None)
    yield "measured\nus", latencies[0]
    for label, known in found.others.items():
        if label in _RATIOS and search.sms[0] in known:
            ratio = trial.latency_s[0] / known[search.sms[0]]
            yield _RATIOS[label], f"{ratio:.2f}" if math.isfinite(ratio) else ""


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


def trials_frame(search: SearchResult) -> "pd.DataFrame":
    """One row a trial, in the order in which they were proposed.

    Columns: ``trial`` (its number), ``config_id``, ``outcome``, ``latency_s``, ``predicted_latency_s``,
    ``error``, and the decisions of the config as a text. Of a search over several SM budgets, outcome and
    latencies stand once a budget, with its SMs behind the name: ``latency_s_32``. What there is not is NaN.
    """
    import pandas as pd

    return pd.DataFrame([_row(trial) for trial in search.trials])


def _row(trial: Trial) -> dict[str, Any]:
    predicted = trial.predicted_latency_s or (None,) * len(trial.sms)
    row: dict[str, Any] = {"trial": trial.number, "config_id": trial.candidate.config.config_id}
    for sms, outcome, latency_s, expected_s in zip(
        trial.sms, trial.outcomes, trial.latency_s, predicted, strict=True
    ):
        at = f"_{sms}" if len(trial.sms) > 1 else ""
        row |= {
            f"outcome{at}": outcome.value,
            f"latency_s{at}": latency_s if np.isfinite(latency_s) else np.nan,
            f"predicted_latency_s{at}": np.nan if expected_s is None else expected_s,
        }
    return row | {"error": trial.error, "config": repr(trial.candidate.config.decisions)}
