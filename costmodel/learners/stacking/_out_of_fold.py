"""What a learner says of rows that it has not learned from."""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Learner, Prediction


def out_of_fold(  # noqa: PLR0913, PLR0917 (what fit takes, and how it is divided)
    make: Callable[[], Learner],
    X: FloatArray,
    y: FloatArray,
    task_ids: TaskIds,
    groups: NDArray[Any],
    folds: int,
) -> Prediction:
    """Predict each row by a learner that saw nothing of its group (stacked generalisation: Wolpert, 1992).

    Args:
        make: Makes an unfitted learner, one for each fold.
        X: ``(n, d)`` features.
        y: ``(n,)`` seconds; inf for failures.
        task_ids: ``(n,)``.
        groups: ``(n,)``; rows of equal value stay together, such as those of a workload.
        folds: Folds at most; there are no more than groups.

    Returns:
        Score and latency in the order of the rows; no latency where a fold's learner gave none.

    Raises:
        ValueError: There are fewer than two groups or folds, or nothing ran outside of a fold.
    """
    fold = _fold_of(groups, folds)
    score, latency_s, knows_latency = np.empty(len(X)), np.empty(len(X)), True
    for i in range(fold.max() + 1):
        train, test = fold != i, fold == i
        prediction = make().fit(X[train], y[train], task_ids[train]).predict(X[test])
        score[test] = prediction.score
        if prediction.latency_s is None:
            knows_latency = False
        else:
            latency_s[test] = prediction.latency_s
    return Prediction(score, latency_s if knows_latency else None)


def _fold_of(groups: NDArray[Any], folds: int) -> NDArray[np.intp]:
    """``(n,)`` fold of each row: the largest group first, each into the fold with the fewest rows so far."""
    names, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    folds = min(folds, len(names))
    if folds < 2:
        raise ValueError(f"two folds and groups must be there, but got {folds} folds of {len(names)} groups")
    fold, filled = np.empty(len(names), dtype=np.intp), np.zeros(folds, dtype=np.intp)
    for i in np.argsort(-sizes, kind="stable"):
        fold[i] = filled.argmin()
        filled[fold[i]] += sizes[i]
    return fold[group]
