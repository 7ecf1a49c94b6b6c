"""Fit and predict on arrays. Learners see no GPU: what a column means is decided by who builds the arrays."""

from costmodel.learners._base import FloatArray, Learner, Prediction, TaskIds
from costmodel.learners._budget_curve import (
    BudgetCurves,
    MeasuredTwice,
    inverse_curve,
    rounds_curve,
    smallest_budget,
    waves_curve,
)
from costmodel.learners._consensus import WeightedConsensus
from costmodel.learners._curves import TaskCurves
from costmodel.learners._kernel_ridge import KernelRidge
from costmodel.learners._matern import matern_similarity
from costmodel.learners._nearest import NearestTask
from costmodel.learners._random import RandomLearner
from costmodel.learners._ridge import RidgeLearner
from costmodel.learners._scaled_from_whole import ScaledFromWhole
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import Training, prepare
from costmodel.learners._xgboost import XGBoostLearner

__all__ = [
    "BudgetCurves",
    "FloatArray",
    "KernelRidge",
    "Learner",
    "MeasuredTwice",
    "NearestTask",
    "Prediction",
    "RandomLearner",
    "RidgeLearner",
    "ScaledFromWhole",
    "Scaler",
    "TaskCurves",
    "TaskIds",
    "Training",
    "WeightedConsensus",
    "XGBoostLearner",
    "inverse_curve",
    "matern_similarity",
    "prepare",
    "rounds_curve",
    "smallest_budget",
    "waves_curve",
]
