"""What every learner does to its training rows first: check, order, and turn latencies into log scores.

Notations are those of ``_base``, and
    log score: ``log(best latency of the task / latency)``, 0 for the best config and lower for the others.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.errors import InvalidArgumentError

# A config 64 times slower than the best is as useless as one that fails: nothing below is told apart.
LOWEST_LOG_SCORE = -float(np.log(64.0))


@dataclass(frozen=True)
class Training:
    """Checked training rows in canonical order, so that what is learned does not depend on the order given.

    Attributes:
        X: ``(n, d)`` features in ``canonical_order``; those that were given where they were in it.
        log_latency: ``(n,)`` natural log of seconds; inf for failures.
        clipped_log_latency: ``(n,)`` the same, clipped where the log score is: finite, also for failures.
        log_score: ``(n,)`` clipped at ``LOWEST_LOG_SCORE``, which failures get.
        tasks: ``(n,)`` position of each row's task among the sorted ids, ascending.
    """

    X: FloatArray
    log_latency: FloatArray
    clipped_log_latency: FloatArray
    log_score: FloatArray
    tasks: NDArray[np.intp]


def prepare(X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Training:
    """Check and order training rows. A task of which every config failed has the lowest score throughout.

    Raises:
        ValueError: The shapes disagree, a feature is infinite, a latency is NaN or not positive, or none is
            finite.
    """
    if X.ndim != 2 or y.shape != X.shape[:1] or task_ids.shape != X.shape[:1]:
        raise ValueError(
            "X, y and task_ids must have shapes (n, d), (n,) and (n,), "
            f"but got {X.shape}, {y.shape} and {task_ids.shape}"
        )
    _check_no_infinity(X)
    check_latencies(y)
    _, tasks = np.unique(task_ids, return_inverse=True)
    order = canonical_order(X, y, tasks)
    tasks, log_latency = tasks[order], np.log(y[order])
    best = np.full(tasks[-1] + 1, np.inf)
    np.minimum.at(best, tasks, log_latency)
    # A task of which nothing ran: as if its best were the slowest of all that did.
    best[np.isinf(best)] = best[np.isfinite(best)].max()
    log_score = np.maximum(best[tasks] - log_latency, LOWEST_LOG_SCORE)
    X = X if (order == np.arange(len(order))).all() else X[order]
    return Training(X, log_latency, best[tasks] - log_score, log_score, tasks)


class Rows(Protocol):
    """``(n, d)`` features, of which those at some positions can be had."""

    def __getitem__(self, rows: NDArray[np.intp], /) -> FloatArray:
        """``(m, d)`` features at m positions."""
        ...


def canonical_order(X: Rows, y: FloatArray, tasks: NDArray[np.intp]) -> NDArray[np.intp]:
    """``(n,)`` positions of rows by task, then by the columns, then by latency."""
    order = np.argsort(tasks, kind="stable")
    for rows in np.split(order, np.flatnonzero(np.diff(tasks[order])) + 1):
        of_task = X[rows]
        same = (of_task == of_task[:1]) | (np.isnan(of_task) & np.isnan(of_task[:1]))
        keys = of_task[:, ~same.all(axis=0)].T
        rows[:] = rows[np.lexsort([y[rows], *keys[::-1]])]
    return order


def first_rows(training: Training) -> NDArray[np.intp]:
    """``(t,)`` position of each task's first row."""
    return np.searchsorted(training.tasks, np.arange(training.tasks[-1] + 1))


def task_levels(training: Training, column: int | None) -> FloatArray | None:
    """``(t,)`` natural log of each task's best latency above its lower bound, see ``lower_bound``.

    None without a column, and where the bound of no task is known.
    """
    if column is None or np.isnan(training.X[:, column]).all():
        return None
    first = first_rows(training)
    best = training.clipped_log_latency[first] + training.log_score[first]
    return np.asarray(best - lower_bound(training.X[first], column))


def check_latencies(y: FloatArray) -> None:
    """Raise ValueError unless all latencies are positive, inf allowed, and at least one is finite.

    That all measurements of a dataset failed is for its user to know: no program is wrong.
    """
    if not (y > 0).all():
        raise ValueError(f"latencies must be positive, inf for failures, but got {y[~(y > 0)][:3].tolist()}")
    if not np.isfinite(y).any():
        raise InvalidArgumentError(
            f"Of what a model learns from at least one latency must be finite, but got none in {y.size}: all "
            "failed. Add measurements of kernels that ran."
        )


def check_features(X: FloatArray, width: int) -> None:
    """Raise ValueError unless X has the shape ``(n, width)`` that was fitted, and no infinite feature."""
    if X.ndim != 2 or X.shape[1] != width:
        raise ValueError(f"X must have shape (n, {width}) as in fit, but got {X.shape}")
    _check_no_infinity(X)


def _check_no_infinity(X: FloatArray) -> None:
    if (infinite := np.isinf(X).any(axis=0)).any():
        columns = np.flatnonzero(infinite)[:3].tolist()
        raise ValueError(f"features must be finite, NaN where one does not apply, but got columns {columns}")


def lower_bound(X: FloatArray, column: int | None) -> FloatArray:
    """``(n,)`` natural log of the lower bound in seconds whose log2 is in this column.

    It is 0, that of one second, without a column and where the bound is unknown (NaN).
    """
    return np.zeros(len(X)) if column is None else np.nan_to_num(X[:, column] * np.log(2.0))
