"""A search as one HTML file: what was found, pictures, trials, and where the answer came from.

The file needs no other: pictures are inline, there are no scripts, and nothing is loaded from a network.
"""

import base64
import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from costmodel.search._comparison import BudgetCurve
from costmodel.search._plot import (
    PredictedPoints,
    ProgressCurve,
    curves_figure,
    predictions_figure,
    progress_figure,
)
from costmodel.search._result import Provenance
from costmodel.search._whole_file import write_whole

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ max-width: 64rem; margin: 2rem auto; padding: 0 1rem; font: 16px/1.5 system-ui, sans-serif; }}
table {{ border-collapse: collapse; display: block; overflow-x: auto; font-size: 85%; }}
th, td {{ padding: 0.2rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }}
figure {{ margin: 1.5rem 0; }}
img {{ max-width: 100%; }}
</style>
</head>
<body>
<h1>{title}</h1>
{body}
</body>
</html>
"""


@dataclass(frozen=True)
class ReportTable:
    """A table of a report.

    Attributes:
        title: Its heading.
        header: Names of the columns.
        rows: Texts, one a column.
    """

    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]


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
    tables: Sequence[ReportTable]
    curves: Sequence[BudgetCurve]
    sms: Sequence[int]
    unit: str
    progress: ProgressCurve
    predictions: Sequence[PredictedPoints]
    provenance: Provenance


def render_report(report: SearchReport) -> str:
    """The page. All texts are escaped."""
    parts = [f"<p>{escape(sentence)}</p>" for sentence in report.answer]
    parts += [_table(table) for table in report.tables[:1]]
    if report.curves:
        figure = curves_figure(report.curves, unit=report.unit, sms=report.sms)
        parts.append(_picture(figure, f"Latency over {report.unit}; shaded: tuned for"))
    parts.append(_picture(progress_figure(report.progress), "Best so far"))
    if report.predictions:
        figure = predictions_figure(report.predictions, unit=report.unit)
        parts.append(_picture(figure, "Predicted against measured; dotted: equal"))
    parts += [_table(table) for table in (*report.tables[1:], _provenance(report.provenance))]
    return _PAGE.format(title=escape(report.title), body="\n".join(parts))


def write_report(report: SearchReport, path: Path) -> None:
    """Write the page, at once; its folder is made.

    Raises:
        CostModelError: The file cannot be written.
    """
    write_whole(path, render_report(report).encode())


def _table(table: ReportTable) -> str:
    header = "".join(f"<th>{escape(name)}</th>" for name in table.header)
    rows = "\n".join(
        "<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in table.rows
    )
    return f"<h2>{escape(table.title)}</h2>\n<table>\n<tr>{header}</tr>\n{rows}\n</table>"


def _picture(figure: Any, caption: str) -> str:
    """A figure as an inline PNG with a caption."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=130, metadata={"Software": None})
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return (
        f'<figure>\n<img alt="{escape(caption)}" src="data:image/png;base64,{data}">\n'
        f"<figcaption>{escape(caption)}</figcaption>\n</figure>"
    )


def _provenance(provenance: Provenance) -> ReportTable:
    facts = {
        "measured by": provenance.runner,
        "candidates measured": str(provenance.n_measurements),
        **provenance.knowledge,
        **{f"version of {name}": version for name, version in provenance.versions.items()},
    }
    return ReportTable("Where it came from", ("what", "value"), list(facts.items()))
