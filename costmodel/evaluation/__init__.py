"""Splits x learners x metrics: a report of how well kernels are chosen that were never measured."""

from costmodel.evaluation._config import EvaluationConfig
from costmodel.evaluation._describe import describe_report, report_tables
from costmodel.evaluation._evaluate import ModelFactory, evaluate, evaluate_between, judge_tasks
from costmodel.evaluation._few_shot import FewShot
from costmodel.evaluation._judge import KS, RANDOM, WHOLE_DEVICE
from costmodel.evaluation._plot import plot_held_out, plot_report
from costmodel.evaluation._plot_shots import plot_shots
from costmodel.evaluation._report import SHOTS_NOTE, Report
from costmodel.evaluation._runs import seeded_runs
from costmodel.evaluation._sides import SHARED_TASKS, SharedTasks
from costmodel.evaluation._statistics import coverage

__all__ = [
    "KS",
    "RANDOM",
    "SHARED_TASKS",
    "SHOTS_NOTE",
    "WHOLE_DEVICE",
    "EvaluationConfig",
    "FewShot",
    "ModelFactory",
    "Report",
    "SharedTasks",
    "coverage",
    "describe_report",
    "evaluate",
    "evaluate_between",
    "judge_tasks",
    "plot_held_out",
    "plot_report",
    "plot_shots",
    "report_tables",
    "seeded_runs",
]
