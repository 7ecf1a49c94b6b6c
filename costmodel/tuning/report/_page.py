"""A search as one HTML file: what was found, pictures, trials, and where the answer came from.

The file needs no other: pictures are inline, there are no scripts, and nothing is loaded from a network.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from costmodel.files import write_whole
from costmodel.report._page import picture_html, web_page
from costmodel.report._table import TextTable
from costmodel.search._provenance import Provenance
from costmodel.tuning.report._curves import BudgetCurve
from costmodel.tuning.report._figures import (
    PredictedPoints,
    ProgressCurve,
    curves_figure,
    predictions_figure,
    progress_figure,
)

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
        figure = curves_figure(report.curves, unit=report.unit, sms=report.sms)
        parts.append(picture_html(figure, f"Latency over {report.unit}; shaded: tuned for"))
    parts.append(picture_html(progress_figure(report.progress), "Best so far"))
    if report.predictions:
        figure = predictions_figure(report.predictions, unit=report.unit)
        parts.append(picture_html(figure, "Predicted against measured; dotted: equal"))
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
