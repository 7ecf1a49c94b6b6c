"""Evaluation: splits x learners x metrics, as a report of how well unmeasured kernels are chosen."""

from costmodel.evaluation._config import COMPARED, EvaluationConfig
from costmodel.evaluation._cross_validate import ModelFactory, cross_validate, evaluate_across
from costmodel.evaluation._describe import describe_report
from costmodel.evaluation._report import NOTE, SHOTS_NOTE, EvaluationReport
from costmodel.evaluation._runs import seeded_runs
from costmodel.evaluation.judging import KS, RANDOM, WHOLE_DEVICE, FewShot, coverage, judge, judge_tasks
from costmodel.evaluation.pictures import plot_held_out
from costmodel.evaluation.sides import SharedTasks

__all__ = [
    "COMPARED",
    "KS",
    "NOTE",
    "RANDOM",
    "SHOTS_NOTE",
    "WHOLE_DEVICE",
    "EvaluationConfig",
    "EvaluationReport",
    "FewShot",
    "ModelFactory",
    "SharedTasks",
    "coverage",
    "cross_validate",
    "describe_report",
    "evaluate_across",
    "judge",
    "judge_tasks",
    "plot_held_out",
    "seeded_runs",
]
