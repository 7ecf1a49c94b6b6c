"""Fewer tasks to be judged by, where all of them would take too long."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from costmodel.dataset.splits._folds import Fold
from costmodel.errors import CostModelError


def leave_out_lone_configs(rows: pd.DataFrame, folds: Sequence[Fold]) -> tuple[tuple[Fold, ...], int]:
    """Return the folds without the tasks of which they test one config, and how many tasks that are.

    Whoever chooses among one config chooses the best: such tasks would raise every score, and tell nothing.

    Args:
        rows: ``Dataset.rows``.
        folds: Folds of it.

    Raises:
        CostModelError: No other task is left.
    """
    tasks, left, lone = rows["task"].to_numpy(), [], 0
    for fold in folds:
        _, task, sizes = np.unique(tasks[fold.test], return_inverse=True, return_counts=True)
        lone += int((sizes == 1).sum())
        test = fold.test[sizes[task] > 1]
        left += [replace(fold, test=test)] if test.size else []
    if not left:
        raise CostModelError(
            f"An evaluation must have tasks of two configs or more to choose among, but each of its {lone} "
            "tasks has one, as in a list of the best configs. Evaluate on a dataset that has others too, or "
            "learn from fewer of them."
        )
    return tuple(left), lone


def sample_tasks(rows: pd.DataFrame, folds: Sequence[Fold], count: int) -> tuple[Fold, ...]:
    """The folds with ``count`` of the tasks that they test, and all rows of these; what is learned stays.

    One task after the other is taken from the SM budget, then from the workload, of which fewest are. Ties
    go by SHA-256 of the task's name: no seed and no order of rows enters, and 200 tasks are among 300.

    Args:
        rows: ``Dataset.rows``.
        folds: Folds of it.
        count: Tasks to keep; all if there are no more.
    """
    tested = np.sort(np.concatenate([fold.test for fold in folds]))
    tasks = rows.iloc[tested].drop_duplicates("task")
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in tasks["task"]]
    tasks = tasks.iloc[np.argsort(digests)]
    kept = tasks["task"].iloc[_spread(tasks[["sms_granted", "workload"]], min(count, len(tasks)))]
    taken = rows["task"].isin(kept).to_numpy()
    smaller = (replace(fold, test=fold.test[taken[fold.test]]) for fold in folds)
    return tuple(fold for fold in smaller if fold.test.size)


def _spread(tasks: pd.DataFrame, count: int) -> list[int]:
    """Positions of ``count`` tasks that spread over the values of the columns, the first column first."""
    codes = [pd.factorize(tasks[name], sort=True)[0] for name in tasks]
    used = [np.zeros(len(code), dtype=np.int64) for code in codes]
    left, taken = np.ones(len(tasks), dtype=np.bool_), list[int]()
    for _ in range(count):
        keys = [counts[code] for counts, code in zip(used, codes, strict=True)]
        chosen = int(np.lexsort((*reversed(keys), ~left))[0])
        left[chosen] = False
        taken.append(chosen)
        for counts, code in zip(used, codes, strict=True):
            counts[code[chosen]] += 1
    return taken
