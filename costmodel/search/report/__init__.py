"""What a search shows: pictures, pages, tracked items."""

from costmodel.search.report._comparison import (
    BEST_KNOWN,
    BEST_MEASURED,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
    searched_curves,
)
from costmodel.search.report._describe import (
    describe_budgets_search,
    describe_page,
    describe_search,
    describe_trial,
)
from costmodel.search.report._plot import (
    PredictedPoints,
    ProgressCurve,
    curves_figure,
    plot_curves,
    predictions_figure,
    progress_figure,
)
from costmodel.search.report._report import ReportTable, SearchReport, render_report, write_report

__all__ = [
    "BEST_KNOWN",
    "BEST_MEASURED",
    "CHOSEN",
    "WHOLE_CHOICE",
    "BudgetCurve",
    "PredictedPoints",
    "ProgressCurve",
    "ReportTable",
    "SearchReport",
    "curves_figure",
    "describe_budgets_search",
    "describe_page",
    "describe_search",
    "describe_trial",
    "measured_curve",
    "plot_curves",
    "predictions_figure",
    "progress_figure",
    "recorded_curves",
    "render_report",
    "searched_curves",
    "write_report",
]
