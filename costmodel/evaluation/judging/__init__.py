"""Results of one task, and statistics over many tasks."""

from costmodel.evaluation.judging._few_shot import FewShot, Fixed, measure_at_random, measure_in_turn
from costmodel.evaluation.judging._judge import (
    EPS,
    KS,
    RANDOM,
    WHOLE_DEVICE,
    judge,
    judge_random,
    prediction_at,
    whole_device_latency,
)
from costmodel.evaluation.judging._statistics import compare, coverage, gap, statistics
from costmodel.evaluation.judging._task import TestedTask, judge_tasks, tested_tasks

__all__ = [
    "EPS",
    "KS",
    "RANDOM",
    "WHOLE_DEVICE",
    "FewShot",
    "Fixed",
    "TestedTask",
    "compare",
    "coverage",
    "gap",
    "judge",
    "judge_random",
    "judge_tasks",
    "measure_at_random",
    "measure_in_turn",
    "prediction_at",
    "statistics",
    "tested_tasks",
    "whole_device_latency",
]
