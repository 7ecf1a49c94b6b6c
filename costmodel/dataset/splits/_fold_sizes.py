"""Sizes of the folds of a split."""

from dataclasses import dataclass

from costmodel.dataset.splits._make import Split
from costmodel.dataset.table._dataset import Dataset


@dataclass(frozen=True)
class FoldSize:
    """Size of the two sides of a fold.

    Attributes:
        held_out: What is on the test side.
        train_rows: Number of training rows.
        shots: Number of training rows that belong to what is held out.
        test_rows: Number of test rows.
        tasks: Number of tasks among the test rows.
    """

    held_out: str
    train_rows: int
    shots: int
    test_rows: int
    tasks: int


def fold_sizes(dataset: Dataset, split: Split) -> tuple[FoldSize, ...]:
    """Return the size of each fold of a split of this dataset."""
    tasks = dataset.rows["task"]
    return tuple(
        FoldSize(
            held_out=fold.held_out,
            train_rows=fold.train.size,
            shots=fold.shots.size,
            test_rows=fold.test.size,
            tasks=int(tasks.iloc[fold.test].nunique()),
        )
        for fold in split.folds
    )
