"""Optuna samplers that propose the configs of a space."""

from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._baselines import PoolSampler, RandomOrderSampler
from costmodel.search.samplers._budgets import LATENCIES, BudgetsSampler, latencies_of
from costmodel.search.samplers._budgets_prediction import BudgetsKnowledge, BudgetsPredictor, SearchGoal
from costmodel.search.samplers._expected_improvement import expected_improvement
from costmodel.search.samplers._history import FINISHED, History, chosen_params
from costmodel.search.samplers._model import PREDICTED_LATENCY, PREDICTED_RANK, ModelSampler, ScoredConfigs
from costmodel.search.samplers._screening import screen
from costmodel.search.samplers._turns import CHOICE, HEARTBEAT, HEARTBEAT_EVERY_S, OWNER, is_abandoned, is_own

__all__ = [
    "CHOICE",
    "FINISHED",
    "HEARTBEAT",
    "HEARTBEAT_EVERY_S",
    "LATENCIES",
    "OWNER",
    "PREDICTED_LATENCY",
    "PREDICTED_RANK",
    "BudgetsKnowledge",
    "BudgetsPredictor",
    "BudgetsSampler",
    "History",
    "ModelSampler",
    "PoolSampler",
    "RandomOrderSampler",
    "ScoredConfigs",
    "SearchGoal",
    "SpaceSampler",
    "chosen_params",
    "expected_improvement",
    "is_abandoned",
    "is_own",
    "latencies_of",
    "screen",
]
