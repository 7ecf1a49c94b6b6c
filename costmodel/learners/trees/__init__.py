"""Tree learners: boosted trees for latency or ranking, and random forests."""

from costmodel.learners.trees._random_forest import RandomForestLearner
from costmodel.learners.trees._xgboost import XGBoostLearner
from costmodel.learners.trees._xgboost_rank import XGBoostRanker

__all__ = ["RandomForestLearner", "XGBoostLearner", "XGBoostRanker"]
