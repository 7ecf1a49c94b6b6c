"""Learners that share structure across tasks."""

from costmodel.learners.multitask._coregionalisation import Coregionalisation, negative_log_likelihood
from costmodel.learners.multitask._gaussian_process import MultitaskGaussianProcess
from costmodel.learners.multitask._matern import matern_similarity
from costmodel.learners.multitask._network import MultitaskNetwork

__all__ = [
    "Coregionalisation",
    "MultitaskGaussianProcess",
    "MultitaskNetwork",
    "matern_similarity",
    "negative_log_likelihood",
]
