"""The search: screens a pool with a model, measures only a shortlist, learns from each result."""

from costmodel.search._base import PoolSampler
from costmodel.search._baselines import PoolTPESampler, RandomOrderSampler
from costmodel.search._comparison import (
    BEST_KNOWN,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
)
from costmodel.search._dispatch import (
    DISPATCH_VERSION,
    DispatchRange,
    DispatchTable,
    load_dispatch_table,
    save_dispatch_table,
)
from costmodel.search._objective import FreeSms, Objective, ObjectiveName, fewest_sms
from costmodel.search._plot import plot_curves
from costmodel.search._pool import Pool
from costmodel.search._portfolio import BudgetRange, best_portfolio, smallest_portfolio
from costmodel.search._propose import propose_candidates
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search._shortlist import ShortlistSampler
from costmodel.search._tune import tune

__all__ = [
    "BEST_KNOWN",
    "CHOSEN",
    "DISPATCH_VERSION",
    "WHOLE_CHOICE",
    "BudgetCurve",
    "BudgetRange",
    "DispatchRange",
    "DispatchTable",
    "FreeSms",
    "Objective",
    "ObjectiveName",
    "Pool",
    "PoolSampler",
    "PoolTPESampler",
    "Provenance",
    "RandomOrderSampler",
    "ShortlistSampler",
    "TuneResult",
    "TunedTrial",
    "best_portfolio",
    "fewest_sms",
    "load_dispatch_table",
    "measured_curve",
    "plot_curves",
    "propose_candidates",
    "recorded_curves",
    "save_dispatch_table",
    "smallest_portfolio",
    "tune",
]
