"""How much each column of a config matters for how fast it is."""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners._training import Training, first_rows
from costmodel.learners.sources._distinct import distinct_rows

_ROWS = 50_000  # after which no further task is looked at
_LEAST = 0.01  # what changed nothing where it was seen may change something elsewhere


def importance(training: Training, columns: NDArray[np.intp]) -> FloatArray:
    """``(c,)`` how much each column changes the score of a config, above 0, 1 for the one that does most.

    It is the root of the column's total effect, the mean variance of best / latency among configs of a task
    that differ in this column alone (Homma and Saltelli, "Importance measures in global sensitivity analysis
    of nonlinear models", Reliability Engineering 52, 1996). Configs weigh as much as the best that differs in
    nothing else. A column that never differs alone counts as the mean of those that do; where none does, or
    nothing changes the score, all count the same.

    Args:
        training: Rows of source tasks.
        columns: ``(c,)`` positions of the columns.
    """
    starts = first_rows(training)
    end = next((start for start in starts[1:] if start >= _ROWS), len(training.X))
    rows = np.column_stack([training.X[:end, columns], training.tasks[:end]])
    first, config = distinct_rows(rows)
    score = np.bincount(config, np.exp(training.log_score[:end])) / np.bincount(config)
    effects = np.array([_total_effect(np.delete(rows[first], i, axis=1), score) for i in range(len(columns))])
    known = ~np.isnan(effects)
    if not effects[known].any():
        return np.ones(len(columns))
    roots = np.sqrt(np.where(known, effects, effects[known].mean()))
    return np.asarray(np.maximum(roots / roots.max(), _LEAST))


def _total_effect(others: FloatArray, score: FloatArray) -> float:
    """Mean variance of the score among configs that agree in all other columns; NaN where none do."""
    alike = distinct_rows(others)[1]
    count = np.bincount(alike)
    mean = np.bincount(alike, score) / count
    variance = np.bincount(alike, np.square(score - mean[alike])) / count
    best = np.zeros(len(count))
    np.maximum.at(best, alike, score)
    weight = np.where(count > 1, best, 0.0)
    return float(weight @ variance / weight.sum()) if weight.any() else np.nan
