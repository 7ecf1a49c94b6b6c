"""The search: screens a space with a model, measures only a shortlist, learns from each result."""

from costmodel.search._base import SpaceSampler
from costmodel.search._baselines import PoolTPESampler, RandomOrderSampler
from costmodel.search._comparison import (
    BEST_KNOWN,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
)
from costmodel.search._declared_space import DeclaredSpace
from costmodel.search._expected_improvement import expected_improvement
from costmodel.search._model_sampler import ModelSampler, ScoredConfigs
from costmodel.search._plot import plot_curves
from costmodel.search._pool import Pool
from costmodel.search._propose import propose_candidates
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search._schedule_space import ScheduleSpace
from costmodel.search._space import DrawnConfigs, SearchSpace
from costmodel.search._stopping import StopGain
from costmodel.search._study import give_up_abandoned, open_study
from costmodel.search._tune import tune

__all__ = [
    "BEST_KNOWN",
    "CHOSEN",
    "WHOLE_CHOICE",
    "BudgetCurve",
    "DeclaredSpace",
    "DrawnConfigs",
    "ModelSampler",
    "Pool",
    "PoolTPESampler",
    "Provenance",
    "RandomOrderSampler",
    "ScheduleSpace",
    "ScoredConfigs",
    "SearchSpace",
    "SpaceSampler",
    "StopGain",
    "TuneResult",
    "TunedTrial",
    "expected_improvement",
    "give_up_abandoned",
    "measured_curve",
    "open_study",
    "plot_curves",
    "propose_candidates",
    "recorded_curves",
    "tune",
]
