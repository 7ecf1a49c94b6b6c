"""The search: screens a pool with a model, measures only a shortlist, learns from each result."""

from costmodel.search._base import PoolSampler
from costmodel.search._baselines import PoolTPESampler, RandomOrderSampler
from costmodel.search._budgets_prediction import BudgetsKnowledge, BudgetsPredictor, Wanted
from costmodel.search._budgets_result import BudgetsResult, BudgetsTrial
from costmodel.search._comparison import (
    BEST_KNOWN,
    BEST_MEASURED,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
    searched_curves,
)
from costmodel.search._dispatch import (
    DISPATCH_VERSION,
    DispatchRange,
    DispatchTable,
    load_dispatch_table,
    save_dispatch_table,
)
from costmodel.search._objective import FreeSms, Objective, ObjectiveName, fewest_sms
from costmodel.search._plot import PredictedPoints, ProgressCurve, plot_curves
from costmodel.search._pool import Pool
from costmodel.search._portfolio import BudgetRange, best_portfolio, smallest_portfolio
from costmodel.search._propose import propose_candidates
from costmodel.search._report import ReportTable, SearchReport, render_report, write_report
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search._shortlist import ShortlistSampler
from costmodel.search._tune import tune

__all__ = [
    "BEST_KNOWN",
    "BEST_MEASURED",
    "CHOSEN",
    "DISPATCH_VERSION",
    "WHOLE_CHOICE",
    "BudgetCurve",
    "BudgetRange",
    "BudgetsKnowledge",
    "BudgetsPredictor",
    "BudgetsResult",
    "BudgetsTrial",
    "DispatchRange",
    "DispatchTable",
    "FreeSms",
    "Objective",
    "ObjectiveName",
    "Pool",
    "PoolSampler",
    "PoolTPESampler",
    "PredictedPoints",
    "ProgressCurve",
    "Provenance",
    "RandomOrderSampler",
    "ReportTable",
    "SearchReport",
    "ShortlistSampler",
    "TuneResult",
    "TunedTrial",
    "Wanted",
    "best_portfolio",
    "fewest_sms",
    "load_dispatch_table",
    "measured_curve",
    "plot_curves",
    "propose_candidates",
    "recorded_curves",
    "render_report",
    "save_dispatch_table",
    "searched_curves",
    "smallest_portfolio",
    "tune",
    "write_report",
]
