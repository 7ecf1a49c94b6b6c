"""Boosted trees that a file holds, checked and walked in NumPy alone.

A tree is complete: node i has the children 2i + 1, where the column is below the threshold, and 2i + 2.

Notations:
    splits: ``(t, 2**depth - 1)`` position of the column that a node looks at.
    thresholds: ``(t, 2**depth - 1)`` value that it compares with.
    leaves: ``(t, 2**depth)``.
"""

from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.files import write_arrays
from costmodel.reading import read_arrays, refusing


class ArrayModel:
    """A dataclass of arrays, trees among them, that a file holds.

    Attributes:
        what: Says in messages what the file is.
        remedy: How it is made.
    """

    what: ClassVar[str]
    remedy: ClassVar[str]
    __dataclass_fields__: ClassVar[dict[str, Any]]

    @classmethod
    def load(cls, path: Path) -> Self:
        """Load a model from a file, which can run nothing.

        Raises:
            CostModelError: The file is none.
        """
        arrays = read_arrays(path, cls.__dataclass_fields__, cls.what, remedy=cls.remedy)
        with refusing(path, cls.what, cls.remedy):
            return cls(**arrays)

    def save(self, path: Path) -> None:
        """Write the model to a file; the same arrays give the same bytes."""
        write_arrays(path, {name: getattr(self, name) for name in self.__dataclass_fields__})


def are_trees(splits: NDArray[Any], thresholds: NDArray[Any], leaves: NDArray[Any], columns: int) -> bool:
    """Tell whether arrays are complete trees over so many columns, whose numbers are all finite."""
    trees, nodes = splits.shape if splits.ndim == 2 else (0, -1)
    return (
        (splits.dtype.kind, thresholds.dtype.kind, leaves.dtype.kind) == ("u", "f", "f")
        and (nodes + 1) & nodes == 0
        and thresholds.shape == (trees, nodes)
        and leaves.shape == (trees, nodes + 1)
        and (splits.size == 0 or int(splits.max()) < columns)
        and bool(np.isfinite(thresholds).all() and np.isfinite(leaves).all())
    )


def walk_trees(
    X: NDArray[Any], splits: NDArray[Any], thresholds: NDArray[Any], leaves: NDArray[Any]
) -> FloatArray:
    """Return the sum of each row's leaves, ``(n,)``, of ``(n, c)`` columns."""
    trees, nodes = splits.shape
    rows, columns = X.shape
    values, thresholds, splits = X.ravel(), thresholds.ravel(), splits.ravel().astype(np.intp)
    # Flat positions: NumPy takes a third of the time that two positions for each element cost it.
    first_value, first_node = np.arange(rows)[:, None] * columns, np.arange(trees) * nodes
    at, to_child = np.tile(first_node, (rows, 1)), 1 - first_node
    for _ in range(nodes.bit_length() if trees else 0):
        at_or_above = values.take(splits.take(at) + first_value) >= thresholds.take(at)
        at = 2 * at + to_child + at_or_above
    leaf = at + (np.arange(trees) - nodes)
    found: FloatArray = leaves.ravel().take(leaf).sum(axis=1, dtype=np.float64)
    return found
