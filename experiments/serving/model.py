"""Trees for rows of tables: fitted, and judged on problems that they did not see."""

from collections.abc import Sequence

import numpy as np
import xgboost
from timings import Task

from costmodel.arrays import FloatArray

SETTINGS = {
    "max_depth": 6,
    "eta": 0.08,
    "subsample": 0.7,
    "colsample_bytree": 0.6,
    "min_child_weight": 5,
    "nthread": 1,
}
ROUNDS, FOLDS = 250, 12


def fit(tasks: Sequence[Task], seed: int = 0) -> xgboost.Booster:
    """Fit what columns leave out of the log of the seconds, less its mean over the configs of a task."""
    X, y = zip(*(_left_over(task) for task in tasks), strict=True)
    matrix = xgboost.DMatrix(np.concatenate(X), np.concatenate(y))
    return xgboost.train({**SETTINGS, "seed": seed}, matrix, ROUNDS)


def predict(booster: xgboost.Booster, task: Task) -> FloatArray:
    """Return the log of the seconds of a task's configs, up to what they have in common."""
    found: FloatArray = task.base + booster.predict(xgboost.DMatrix(task.X))
    return found


def predict_unseen(tasks: Sequence[Task], seed: int = 0) -> list[FloatArray]:
    """Predict each task by a model that saw no number of tokens, GPU or SMs of its problem."""
    problems = sorted({task.problem for task in tasks})
    np.random.default_rng(seed).shuffle(problems)
    fold = {problem: i % FOLDS for i, problem in enumerate(problems)}
    boosters = {
        i: fit([task for task in tasks if fold[task.problem] != i], seed) for i in sorted(set(fold.values()))
    }
    return [predict(boosters[fold[task.problem]], task) for task in tasks]


def _left_over(task: Task) -> tuple[FloatArray, FloatArray]:
    ran = np.isfinite(task.seconds)
    left = np.log(task.seconds[ran]) - task.base[ran]
    return task.X[ran], left - left.mean()
