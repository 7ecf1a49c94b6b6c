"""Description of a published dataset: card, pictures, summaries, differences."""

from costmodel.dataset.publish._card import (
    HEADER_NAME,
    CardHeader,
    read_card_header,
    read_held_header,
    render_card,
    write_held_header,
)
from costmodel.dataset.publish._coverage import Coverage
from costmodel.dataset.publish._describe import Describer, Description, describe
from costmodel.dataset.publish._diff import Diff, WorkloadDiff, diff, diff_datasets
from costmodel.dataset.publish._noise import Noise, Quantiles, visit_shifts
from costmodel.dataset.publish._page import render_page
from costmodel.dataset.publish._plots import write_plots
from costmodel.dataset.publish._summary import TextTable, summary_tables
from costmodel.dataset.publish._tasks import Budget, Task

__all__ = [
    "HEADER_NAME",
    "Budget",
    "CardHeader",
    "Coverage",
    "Describer",
    "Description",
    "Diff",
    "Noise",
    "Quantiles",
    "Task",
    "TextTable",
    "WorkloadDiff",
    "describe",
    "diff",
    "diff_datasets",
    "read_card_header",
    "read_held_header",
    "render_card",
    "render_page",
    "summary_tables",
    "visit_shifts",
    "write_held_header",
    "write_plots",
]
