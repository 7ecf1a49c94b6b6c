"""What is learned from and what is judged by: whole datasets, a sample of tasks, and what is new of them."""

from costmodel.evaluation.sides._datasets import SharedTasks, join, put_apart
from costmodel.evaluation.sides._novelty import NOVELTY, novelty
from costmodel.evaluation.sides._sample import sample_tasks

__all__ = ["NOVELTY", "SharedTasks", "join", "novelty", "put_apart", "sample_tasks"]
