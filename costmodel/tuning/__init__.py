"""From a request to a result: what the commands do, as calls."""

from costmodel.tuning._describe_training import describe_training
from costmodel.tuning._evaluate import evaluate
from costmodel.tuning._training import Trained, train

__all__ = ["Trained", "describe_training", "evaluate", "train"]
