"""From a request to a result: what the commands do, as calls."""

from costmodel.tuning._describe_training import describe_training
from costmodel.tuning._evaluate import evaluate
from costmodel.tuning._training import DEFAULT_LEARNER, train

__all__ = ["DEFAULT_LEARNER", "describe_training", "evaluate", "train"]
