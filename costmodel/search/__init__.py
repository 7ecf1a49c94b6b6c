"""The search: screens a space with a model, measures only a shortlist, learns from each result."""

from costmodel.search._base import SpaceSampler
from costmodel.search._baselines import HeldToPool, RandomOrderSampler
from costmodel.search._budgets_prediction import BudgetsKnowledge, BudgetsPredictor, Wanted
from costmodel.search._budgets_result import BudgetsResult, BudgetsTrial
from costmodel.search._budgets_sampler import BudgetsSampler
from costmodel.search._budgets_space import BudgetsSpace
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
from costmodel.search._declared_space import DeclaredSpace
from costmodel.search._describe import (
    describe_budgets_search,
    describe_page,
    describe_search,
    describe_trial,
)
from costmodel.search._dispatch import (
    DISPATCH_VERSION,
    DispatchRange,
    DispatchTable,
    load_dispatch_table,
    save_dispatch_table,
)
from costmodel.search._expected_improvement import expected_improvement
from costmodel.search._history import History
from costmodel.search._model_sampler import ModelSampler, ScoredConfigs
from costmodel.search._objective import FreeSms, Objective, ObjectiveName, fewest_sms
from costmodel.search._plot import (
    PredictedPoints,
    ProgressCurve,
    curves_figure,
    plot_curves,
    predictions_figure,
    progress_figure,
)
from costmodel.search._pool import Pool
from costmodel.search._portfolio import BudgetRange, best_portfolio, served_s, smallest_portfolio
from costmodel.search._propose import propose_candidates
from costmodel.search._report import ReportTable, SearchReport, render_report, write_report
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search._schedule_space import ScheduleSpace
from costmodel.search._space import DrawnConfigs, SearchSpace
from costmodel.search._stopping import StopGain
from costmodel.search._study import give_up_abandoned, open_study
from costmodel.search._tune import tune
from costmodel.search._tune_budgets import tune_budgets

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
    "BudgetsSampler",
    "BudgetsSpace",
    "BudgetsTrial",
    "DeclaredSpace",
    "DispatchRange",
    "DispatchTable",
    "DrawnConfigs",
    "FreeSms",
    "HeldToPool",
    "History",
    "ModelSampler",
    "Objective",
    "ObjectiveName",
    "Pool",
    "PredictedPoints",
    "ProgressCurve",
    "Provenance",
    "RandomOrderSampler",
    "ReportTable",
    "ScheduleSpace",
    "ScoredConfigs",
    "SearchReport",
    "SearchSpace",
    "SpaceSampler",
    "StopGain",
    "TuneResult",
    "TunedTrial",
    "Wanted",
    "best_portfolio",
    "curves_figure",
    "describe_budgets_search",
    "describe_page",
    "describe_search",
    "describe_trial",
    "expected_improvement",
    "fewest_sms",
    "give_up_abandoned",
    "load_dispatch_table",
    "measured_curve",
    "open_study",
    "plot_curves",
    "predictions_figure",
    "progress_figure",
    "propose_candidates",
    "recorded_curves",
    "render_report",
    "save_dispatch_table",
    "searched_curves",
    "served_s",
    "smallest_portfolio",
    "tune",
    "tune_budgets",
    "write_report",
]
