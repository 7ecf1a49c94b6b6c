"""What a search shows: sentences, tables, pictures, a page, tracked items."""

from costmodel.tuning.report._answer import answer
from costmodel.tuning.report._content import page_of, values_of
from costmodel.tuning.report._curves import (
    BEST_KNOWN,
    BEST_MEASURED,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
    searched_curves,
)
from costmodel.tuning.report._describe import describe_page, describe_search, describe_trial
from costmodel.tuning.report._figures import PredictedPoints, ProgressCurve, curves_figure
from costmodel.tuning.report._findings import Findings
from costmodel.tuning.report._frame import trials_frame
from costmodel.tuning.report._page import ReportTable, SearchReport, render_report, write_report
from costmodel.tuning.report._tables import kernels_table, trials_table

__all__ = [
    "BEST_KNOWN",
    "BEST_MEASURED",
    "CHOSEN",
    "WHOLE_CHOICE",
    "BudgetCurve",
    "Findings",
    "PredictedPoints",
    "ProgressCurve",
    "ReportTable",
    "SearchReport",
    "answer",
    "curves_figure",
    "describe_page",
    "describe_search",
    "describe_trial",
    "kernels_table",
    "measured_curve",
    "page_of",
    "recorded_curves",
    "render_report",
    "searched_curves",
    "trials_frame",
    "trials_table",
    "values_of",
    "write_report",
]
