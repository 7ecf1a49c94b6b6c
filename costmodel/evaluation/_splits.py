"""Which rows a model may learn from and which it is judged by."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.errors import CostModelError


@dataclass(frozen=True)
class Split:
    """One fold.

    Attributes:
        column: Column of the rows whose values are never on both sides.
        held_out: The value on the test side.
        train: Positions of the training rows.
        test: Positions of the test rows.
    """

    column: str
    held_out: str
    train: NDArray[np.intp]
    test: NDArray[np.intp]


# Column whose values are held out, one after the other. With workloads the model has never met what it is
# judged by, on any platform; with budgets it knows the workload at others, with devices on others.
SPLITS: Mapping[str, str] = {
    "leave-one-workload-out": "workload",
    "leave-one-budget-out": "sms_granted",
    "leave-one-device-out": "device",
}


def split_column(name: str) -> str:
    """Column whose values the split of this name holds out, one after the other.

    Raises:
        CostModelError: No split has this name.
    """
    if name not in SPLITS:
        raise CostModelError(f"A split must be one of {', '.join(SPLITS)}, but got {name!r}.")
    return SPLITS[name]


def check_no_leak(rows: pd.DataFrame, split: Split) -> None:
    """Check that no row and no value of the split's column is on both sides, and that both sides have rows.

    Raises:
        ValueError: Something leaks, or a side is empty.
    """
    values = rows[split.column].to_numpy()
    shared = sorted({str(v) for v in values[split.train]} & {str(v) for v in values[split.test]})
    if shared:
        raise ValueError(f"no {split.column} may be on both sides of a split, but got {shared[:3]}")
    if not split.train.size or not split.test.size:
        raise ValueError(
            "both sides of a split must have rows, "
            f"but got {split.train.size} to train and {split.test.size} to test"
        )


def leave_one_out(rows: pd.DataFrame, column: str) -> Iterator[Split]:
    """One fold for each value of a column, which is all on the test side.

    Args:
        rows: ``Dataset.rows``.
        column: Such as ``workload``, which holds out every platform of a workload.

    Raises:
        CostModelError: The column has fewer than two values.
    """
    values = rows[column].to_numpy()
    distinct = pd.unique(rows[column])
    if len(distinct) < 2:
        raise CostModelError(
            f"Leaving one {column} out needs at least two, but the dataset has {distinct.tolist()}. "
            "Measure more, or choose another split."
        )
    for value in distinct:
        split = Split(column, str(value), np.flatnonzero(values != value), np.flatnonzero(values == value))
        check_no_leak(rows, split)
        yield split
