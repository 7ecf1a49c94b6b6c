"""Learners that share structure across tasks."""

from costmodel.learners.multitask._matern import matern_similarity
from costmodel.learners.multitask._network import MultitaskNetwork

__all__ = [
    "MultitaskNetwork",
    "matern_similarity",
]
