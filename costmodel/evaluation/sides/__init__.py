"""Training and test sides of an evaluation: whole datasets, sampled tasks, and novelty of tasks."""

from costmodel.evaluation.sides._datasets import SharedTasks, join, put_apart
from costmodel.evaluation.sides._novelty import NOVELTY, novelty
from costmodel.evaluation.sides._sample import sample_tasks

__all__ = ["NOVELTY", "SharedTasks", "join", "novelty", "put_apart", "sample_tasks"]
