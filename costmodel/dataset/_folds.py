"""Folds: which rows a model may learn from and which it is judged by, and the checks that keep them apart.

Notations:
    n: rows of ``Dataset.rows``; positions are positions in it.
    labels: ``(n,)`` what is held out of each row, such as its workload; rows of one label stay together.
    draws: ``(n,)`` numbers in [0, 1) that follow from each row's content and a seed, see ``draw_rows``.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset._dataset import Dataset
from costmodel.errors import CostModelError

Positions = NDArray[np.intp]
Labels = NDArray[Any]


def _no_rows() -> Positions:
    return np.zeros(0, dtype=np.intp)


@dataclass(frozen=True)
class Fold:
    """One fold.

    Attributes:
        held_out: What is on the test side.
        train: Positions of the rows to learn from, ascending.
        test: Positions of the rows to be judged by, ascending.
        shots: Positions of those rows of ``train`` whose tasks are held out; few-shot only.
    """

    held_out: str
    train: Positions
    test: Positions
    shots: Positions = field(default_factory=_no_rows)

    @classmethod
    def of(cls, held_out: str, test: NDArray[np.bool_], shots: NDArray[np.bool_] | None = None) -> "Fold":
        """The fold that learns from every row that is not in ``test``, an ``(n,)`` mask as ``shots`` is."""
        shot = _no_rows() if shots is None else np.flatnonzero(shots)
        return cls(held_out, np.flatnonzero(~test), np.flatnonzero(test), shot)


def draw_rows(dataset: Dataset, seed: int) -> NDArray[np.float64]:
    """One number in [0, 1) for each row, from SHA-256 of seed, candidate and platform.

    No order of rows enters, and a row keeps its number when others are measured.
    """
    candidates = [candidate.candidate_id for candidate in dataset.candidates]
    platforms = [platform.platform_id for platform in dataset.platforms]
    pairs = zip(dataset.rows["candidate"], dataset.rows["platform"], strict=True)
    digests = (hashlib.sha256(f"{seed}/{candidates[c]}/{platforms[p]}".encode()).digest() for c, p in pairs)
    # 53 bits fit a float64.
    return np.array([(int.from_bytes(digest[:8]) >> 11) / 2**53 for digest in digests])


def leave_one_out(labels: Labels) -> tuple[Fold, ...]:
    """One fold for each label, in ascending order."""
    return tuple(Fold.of(str(label), labels == label) for label in np.unique(labels))


def random_fold(tasks: Labels, draws: NDArray[np.float64], share: float) -> Fold:
    """Hold out a share of each task's rows, rounded, but at least one and not all.

    A task of one row is held out with the probability ``share``.
    """
    ranks, sizes = _ranks(tasks, draws)
    count = np.clip(np.rint(share * sizes), 1, np.maximum(sizes - 1, 1))
    return Fold.of(f"{share:.0%} of each task", np.where(sizes > 1, ranks < count, draws < share))


def few_shot(fold: Fold, tasks: Labels, draws: NDArray[np.float64], shots: int) -> Fold:
    """Move ``shots`` rows of each held-out task to the training side, all but one where it has no more."""
    ranks, sizes = _ranks(tasks, draws)
    held_out = np.isin(np.arange(len(tasks)), fold.test)
    moved = held_out & (ranks < np.minimum(shots, sizes - 1))
    return Fold.of(fold.held_out, held_out & ~moved, moved)


def _ranks(tasks: Labels, draws: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Each row's place by draw among the rows of its task, from 0, and how many these are."""
    grouped = pd.Series(draws).groupby(tasks)
    return grouped.rank(method="first").to_numpy().astype(np.int64) - 1, grouped.transform("size").to_numpy()


def check_folds(folds: Iterable[Fold], tasks: Labels, labels: Labels | None) -> None:
    """Check that both sides of each fold have rows, that nothing leaks, and that no row is tested twice.

    Args:
        folds: What to check.
        tasks: ``(n,)`` task of each row.
        labels: What is held out of each row; None where rows of one task may be on both sides.

    Raises:
        CostModelError: Something is wrong.
    """
    tested = np.zeros(len(tasks), dtype=np.int64)
    for fold in folds:
        _check_fold(fold, tasks, labels)
        tested[fold.test] += 1
    if np.any(tested > 1):
        raise CostModelError(
            f"A row may be on the test side of one fold of a split, but {np.sum(tested > 1)} are on that of "
            "several: make the split again."
        )


def _check_fold(fold: Fold, tasks: Labels, labels: Labels | None) -> None:
    if not fold.train.size or not fold.test.size:
        raise CostModelError(
            f"Both sides of a fold must have rows, but holding out {fold.held_out} leaves {fold.train.size} "
            f"to train and {fold.test.size} to test: measure more, or choose another split."
        )
    _refuse_shared(fold, "candidate and platform", fold.train, fold.test)
    if labels is None:
        return
    source = np.setdiff1d(fold.train, fold.shots)
    for name, of_row in (("held-out value", labels), ("task", tasks)):
        _refuse_shared(fold, name, of_row[source], of_row[fold.test])
    strange = np.setdiff1d(tasks[fold.shots], tasks[fold.test])
    if strange.size or np.setdiff1d(fold.shots, fold.train).size:
        raise CostModelError(
            f"The shots of a fold must be training rows of tasks that it tests, but those of {fold.held_out} "
            f"are not, such as {strange[:1].tolist()}: make the split again."
        )


def _refuse_shared(fold: Fold, name: str, train: Labels, test: Labels) -> None:
    shared = np.intersect1d(train, test)
    if shared.size:
        raise CostModelError(
            f"No {name} may be on both sides of a fold, but holding out {fold.held_out} leaves {shared.size} "
            f"there, such as {shared[0]}: make the split again."
        )
