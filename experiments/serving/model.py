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
ROUNDS, FOLDS, SEEDS = 220, 12, (0, 1)
Boosters = list[xgboost.Booster]
_SLOWER, _SELDOM = 0.01, 0.002  # how much slower counts, and how seldom that may be
_FEWEST = 3  # problems of a kind that tables are made for


def fit(tasks: Sequence[Task]) -> Boosters:
    """Fit what columns leave out of the log of the seconds, less its mean over the configs of a task."""
    X, y = zip(*(_left_over(task) for task in tasks), strict=True)
    matrix = xgboost.DMatrix(np.concatenate(X), np.concatenate(y))
    return [xgboost.train({**SETTINGS, "seed": seed}, matrix, ROUNDS) for seed in SEEDS]


def predict(boosters: Boosters, task: Task) -> FloatArray:
    """Return the log of the seconds of a task's configs, up to what they have in common."""
    X = xgboost.DMatrix(task.X)
    found: FloatArray = task.base + np.mean([booster.predict(X) for booster in boosters], axis=0)
    return found


def predict_unseen(tasks: Sequence[Task]) -> list[FloatArray]:
    """Predict each task by a model that saw no number of tokens, GPU or SMs of its problem."""
    problems = sorted({task.problem for task in tasks})
    np.random.default_rng(0).shuffle(problems)
    fold = {problem: i % FOLDS for i, problem in enumerate(problems)}
    models = {i: fit([task for task in tasks if fold[task.problem] != i]) for i in set(fold.values())}
    return [predict(models[fold[task.problem]], task) for task in tasks]


def doubt(predicted: Sequence[tuple[Task, FloatArray]]) -> tuple[float, FloatArray]:
    """Return the least margin by which hardly any first choice is the slower one, and the spread of ratios.

    Every config of a task stands for a default once.
    """
    expected, measured = [], []
    for task, log_s in predicted:
        ran = np.isfinite(task.seconds)
        if ran.sum() < 2:
            continue
        first = int(np.argmin(np.where(ran, log_s, np.inf)))
        others = ran & (np.arange(len(ran)) != first)
        expected.append(log_s[others] - log_s[first])
        measured.append(np.log(task.seconds[others] / task.seconds[first]))
    gap, gain = np.concatenate(expected), np.concatenate(measured)
    order = np.argsort(-gap)
    share = np.cumsum(gain[order] < -_SLOWER) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(share <= _SELDOM)
    margin = float(gap[order][kept[-1]]) if len(kept) else float(gap.max())
    return margin, np.quantile(gain - gap, [0.05, 0.95])


def margins_of(
    tasks: Sequence[Task], unseen: Sequence[FloatArray], kinds: Sequence[str], but: str = ""
) -> dict[str, float]:
    """Return the margin of each kind of kernel: at least that of all kinds, as of some problems are few.

    It is infinite for a kind of which there are fewer than three problems, or two others.

    Args:
        tasks: Tasks.
        unseen: What a model that did not see its problem expects of each.
        kinds: The kind of each.
        but: A problem that is left out, to be judged by what the others have.
    """
    pairs: dict[str, list[tuple[Task, FloatArray]]] = {kind: [] for kind in sorted(set(kinds))}
    for task, log_s, kind in zip(tasks, unseen, kinds, strict=True):
        if task.problem != but:
            pairs[kind].append((task, log_s))
    of_all, _ = doubt([pair for each in pairs.values() for pair in each])
    fewest = _FEWEST - 1 if but else _FEWEST
    return {
        kind: max(of_all, doubt(each)[0]) if len({task.problem for task, _ in each}) >= fewest else np.inf
        for kind, each in pairs.items()
    }


def _left_over(task: Task) -> tuple[FloatArray, FloatArray]:
    ran = np.isfinite(task.seconds)
    left = np.log(task.seconds[ran]) - task.base[ran]
    return task.X[ran], left - left.mean()
