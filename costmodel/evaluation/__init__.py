"""Splits x learners x metrics: a report of how well kernels are chosen that were never measured."""

from costmodel.evaluation._evaluate import ModelFactory, evaluate, evaluate_between
from costmodel.evaluation._few_shot import FewShot
from costmodel.evaluation._judge import KS, RANDOM, WHOLE_DEVICE
from costmodel.evaluation._plot import plot_report
from costmodel.evaluation._plot_shots import plot_shots
from costmodel.evaluation._report import SHOTS_NOTE, Report
from costmodel.evaluation._runs import seeded_runs
from costmodel.evaluation._sides import SHARED_TASKS, SharedTasks
from costmodel.evaluation._train import Trained, train

__all__ = [
    "KS",
    "RANDOM",
    "SHARED_TASKS",
    "SHOTS_NOTE",
    "WHOLE_DEVICE",
    "FewShot",
    "ModelFactory",
    "Report",
    "SharedTasks",
    "Trained",
    "evaluate",
    "evaluate_between",
    "plot_report",
    "plot_shots",
    "seeded_runs",
    "train",
]
