"""Search: screen a space with a model, measure only a shortlist, and learn from each result."""

from costmodel.search._batch import batches_in_flight
from costmodel.search._drift_watch import DriftWatch
from costmodel.search._objective import FreeSms, Objective, ObjectiveName, SearchGoal, fewest_sms
from costmodel.search._provenance import Provenance
from costmodel.search._result import SearchResult
from costmodel.search._search import Search
from costmodel.search._stopping import StopGain
from costmodel.search._study import add_known, give_up_abandoned, open_study, quiet_optuna
from costmodel.search._trial import Trial
from costmodel.search._tune import tune, tune_together
from costmodel.search.portfolio import (
    BudgetRange,
    DispatchRange,
    DispatchTable,
    best_portfolio,
    load_dispatch_table,
    served_s,
    smallest_portfolio,
)
from costmodel.search.proposals import propose_candidates, screen_candidates
from costmodel.search.samplers import History, ModelSampler, PoolSampler, RandomOrderSampler, SpaceSampler

__all__ = [
    "BudgetRange",
    "DispatchRange",
    "DispatchTable",
    "DriftWatch",
    "FreeSms",
    "History",
    "ModelSampler",
    "Objective",
    "ObjectiveName",
    "PoolSampler",
    "Provenance",
    "RandomOrderSampler",
    "Search",
    "SearchGoal",
    "SearchResult",
    "SpaceSampler",
    "StopGain",
    "Trial",
    "add_known",
    "batches_in_flight",
    "best_portfolio",
    "fewest_sms",
    "give_up_abandoned",
    "load_dispatch_table",
    "open_study",
    "propose_candidates",
    "quiet_optuna",
    "screen_candidates",
    "served_s",
    "smallest_portfolio",
    "tune",
    "tune_together",
]
