"""Splits x learners x metrics: a report of how well kernels are chosen that were never measured."""

from costmodel.evaluation._config import EvaluationConfig
from costmodel.evaluation._describe import describe_report, describe_training, report_tables
from costmodel.evaluation._evaluate import ModelFactory, evaluate, evaluate_between
from costmodel.evaluation._few_shot import FewShot
from costmodel.evaluation._judge import KS, RANDOM, WHOLE_DEVICE
from costmodel.evaluation._plot import plot_held_out, plot_report
from costmodel.evaluation._plot_shots import plot_shots
from costmodel.evaluation._report import SHOTS_NOTE, Report
from costmodel.evaluation._rows import LearningRows
from costmodel.evaluation._runs import seeded_runs
from costmodel.evaluation._sides import SHARED_TASKS, SharedTasks
from costmodel.evaluation._train import Trained, train

__all__ = [
    "KS",
    "RANDOM",
    "SHARED_TASKS",
    "SHOTS_NOTE",
    "WHOLE_DEVICE",
    "EvaluationConfig",
    "FewShot",
    "LearningRows",
    "ModelFactory",
    "Report",
    "SharedTasks",
    "Trained",
    "describe_report",
    "describe_training",
    "evaluate",
    "evaluate_between",
    "plot_held_out",
    "plot_report",
    "plot_shots",
    "report_tables",
    "seeded_runs",
    "train",
]
