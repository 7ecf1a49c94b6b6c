"""Source tasks whose latencies are in another unit than those of the others."""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds

# The best configs of 184 tasks of an H100 took 1 to 20 times their lower bound, and 4 times in the median;
# seconds, milliseconds and microseconds are 1,000 apart.
_OFF = float(np.log(100.0))


def in_common_unit(X: FloatArray, y: FloatArray, task_ids: TaskIds, column: int | None) -> NDArray[np.bool_]:
    """``(n,)`` whether each row's task may be in the unit of most tasks.

    A task is not if its best latency, relative to the lower bound of that config, is more than 100 times
    off the median of all tasks. Tasks of which the bound is unknown or nothing ran may be; and where not
    even half of the tasks agree, nobody knows the unit and all may be.

    Args:
        X: ``(n, d)`` features.
        y: ``(n,)`` latencies; inf for a config that failed.
        task_ids: ``(n,)`` task of each row.
        column: Position of the column with log2 of a lower bound in seconds; None if there is none.
    """
    names, tasks = np.unique(task_ids, return_inverse=True)
    level = np.full(len(names), np.inf)
    if column is not None:
        bound = X[:, column] * np.log(2.0)
        np.minimum.at(level, tasks, np.where(np.isnan(bound), np.inf, np.log(y) - bound))
    known = np.isfinite(level)
    if not known.any():
        return np.ones(len(y), dtype=bool)
    off = known & (np.abs(level - np.median(level[known])) > _OFF)
    if 2 * int(off.sum()) >= int(known.sum()):
        return np.ones(len(y), dtype=bool)
    return np.asarray(~off[tasks])
