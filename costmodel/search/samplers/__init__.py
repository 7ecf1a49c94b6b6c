"""Optuna samplers that propose configs of a space."""

from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._baselines import PoolSampler, RandomOrderSampler
from costmodel.search.samplers._drifts import add_drift, drifts_of, present_factors
from costmodel.search.samplers._history import (
    FINISHED,
    LATENCIES,
    History,
    chosen_params,
    latencies_of,
    value_of,
)
from costmodel.search.samplers._model import PREDICTED_LATENCY, PREDICTED_RANK, TIED, ModelSampler
from costmodel.search.samplers._prediction import JointPrediction, JointPredictor, Prior
from costmodel.search.samplers._scored import ScoredConfigs
from costmodel.search.samplers._screening import screen
from costmodel.search.samplers._turns import (
    CHOICE,
    HEARTBEAT,
    HEARTBEAT_EVERY_S,
    OWNER,
    give_up,
    is_abandoned,
    is_own,
)

__all__ = [
    "CHOICE",
    "FINISHED",
    "HEARTBEAT",
    "HEARTBEAT_EVERY_S",
    "LATENCIES",
    "OWNER",
    "PREDICTED_LATENCY",
    "PREDICTED_RANK",
    "TIED",
    "History",
    "JointPrediction",
    "JointPredictor",
    "ModelSampler",
    "PoolSampler",
    "Prior",
    "RandomOrderSampler",
    "ScoredConfigs",
    "SpaceSampler",
    "add_drift",
    "chosen_params",
    "drifts_of",
    "give_up",
    "is_abandoned",
    "is_own",
    "latencies_of",
    "present_factors",
    "screen",
    "value_of",
]
