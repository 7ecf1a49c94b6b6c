"""Learners: fit and predict on arrays. Learners know no GPU; the arrays' builder gives columns meaning."""

from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._base import Learner, Prediction, Storable
from costmodel.learners._kernel_ridge import KernelRidge
from costmodel.learners._random import RandomLearner
from costmodel.learners._registry import (
    DEFAULT_LEARNER,
    class_key,
    is_registered,
    learner_class,
    learner_names,
    register,
    stored_class,
)
from costmodel.learners._ridge import RidgeLearner
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import (
    Training,
    canonical_order,
    check_features,
    first_rows,
    lower_bound,
    prepare,
    task_levels,
)
from costmodel.learners.known import KnownElsewhere
from costmodel.learners.multitask import MultitaskNetwork, matern_similarity
from costmodel.learners.sources import NearestTask, TaskCurves, WeightedConsensus, source_weights
from costmodel.learners.stacking import AboveAnalytic, Stack
from costmodel.learners.trees import RandomForestLearner, XGBoostLearner, XGBoostRanker

__all__ = [
    "DEFAULT_LEARNER",
    "AboveAnalytic",
    "AnalyticPrior",
    "KernelRidge",
    "KnownElsewhere",
    "Learner",
    "MultitaskNetwork",
    "NearestTask",
    "Prediction",
    "RandomForestLearner",
    "RandomLearner",
    "RidgeLearner",
    "ScaledFromWhole",
    "Scaler",
    "Stack",
    "Storable",
    "TaskCurves",
    "Training",
    "WeightedConsensus",
    "XGBoostLearner",
    "XGBoostRanker",
    "canonical_order",
    "check_features",
    "class_key",
    "first_rows",
    "is_registered",
    "learner_class",
    "learner_names",
    "lower_bound",
    "matern_similarity",
    "prepare",
    "register",
    "source_weights",
    "stored_class",
    "task_levels",
]
