"""Learners that remember source tasks and treat a new task as one of them or as a mixture."""

from costmodel.learners.sources._consensus import WeightedConsensus
from costmodel.learners.sources._curves import TaskCurves
from costmodel.learners.sources._distinct import distinct_rows, row_keys
from costmodel.learners.sources._importance import importance
from costmodel.learners.sources._nearest import NearestTask
from costmodel.learners.sources._source_weights import source_weights

__all__ = [
    "NearestTask",
    "TaskCurves",
    "WeightedConsensus",
    "distinct_rows",
    "importance",
    "row_keys",
    "source_weights",
]
