"""The compressed format of a balanced matrix, and the way there and back."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.balanced._pattern import Pattern

_MOST_GROUPS = 256  # of a block: an index is a byte


@dataclass(frozen=True)
class BalancedMatrix:
    """The kept weights of each row, and where they belong.

    No pointers to rows are needed, as all have as many; an index counts groups within its block, and rows of
    one vector share theirs. A kept weight may be zero.

    Attributes:
        pattern: What is kept.
        columns: Columns of the matrix, k.
        values: ``(n, kept of a row)`` kept weights of each row, in order.
        indices: ``(n / vector, kept groups of a row)`` bytes: which group of its block each is; they rise.

    Raises:
        CostModelError: Shapes or the type of indices do not fit the pattern, or an index is out of range, or
            indices of a block do not rise.
    """

    pattern: Pattern
    columns: int
    values: NDArray[Any]
    indices: NDArray[np.uint8]

    def __post_init__(self) -> None:
        """Check the format."""
        self.pattern.check_shape(self.shape)
        _check_groups(self.pattern)
        kept = self.pattern.kept_of_row(self.columns)
        wanted = (self.shape[0], kept), (self.shape[0] // self.pattern.vector, kept // self.pattern.group)
        if (self.values.shape, self.indices.shape) != wanted or self.indices.dtype != np.uint8:
            raise CostModelError(
                f"Values and indices must have the shapes {wanted[0]} and {wanted[1]}, indices as uint8, but "
                f"got {self.values.shape}, {self.indices.shape} and {self.indices.dtype}."
            )
        _check_indices(self._block_indices(), self.pattern)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the matrix."""
        return (len(self.values), self.columns)

    @property
    def column_indices(self) -> NDArray[np.intp]:
        """``(n / vector, kept of a row)`` the column of each kept weight."""
        pattern = self.pattern
        blocks = self._block_indices().astype(np.intp)
        groups = blocks + np.arange(blocks.shape[1])[:, None] * pattern.groups_of_block
        columns = groups[..., None] * pattern.group + np.arange(pattern.group)
        return columns.reshape(len(blocks), -1)

    def unpack(self) -> NDArray[Any]:
        """``(n, k)`` the matrix with its zeros."""
        dense = np.zeros(self.shape, self.values.dtype)
        columns = self.column_indices.repeat(self.pattern.vector, axis=0)
        np.put_along_axis(dense, columns, self.values, axis=1)
        return dense

    def _block_indices(self) -> NDArray[np.uint8]:
        return self.indices.reshape(len(self.indices), -1, self.pattern.kept_groups)


def pack(weights: NDArray[Any], pattern: Pattern) -> BalancedMatrix:
    """Compress a matrix; blocks with fewer non-zeros than are kept keep zeros.

    Raises:
        CostModelError: The matrix cannot have the pattern, or some block has more non-zeros than are kept.
    """
    pattern.check_shape(weights.shape)
    _check_groups(pattern)
    rows, columns = weights.shape
    shape = (rows // pattern.vector, pattern.vector, -1, pattern.groups_of_block, pattern.group)
    kept = (weights.reshape(shape) != 0).any(axis=(1, 4))
    missing = pattern.kept_groups - kept.sum(axis=2, dtype=np.int32, keepdims=True)
    if (missing < 0).any():
        vector, block = np.argwhere(missing[..., 0] < 0)[0]
        got = pattern.kept_groups - missing[vector, block, 0]
        raise CostModelError(
            f"Each block must have at most {pattern.kept_groups} non-zero groups of "
            f"{pattern.groups_of_block}, but block {block} of row {vector * pattern.vector} has {got}. "
            "Prune the matrix first."
        )
    if missing.any():
        kept |= np.cumsum(~kept, axis=2, dtype=np.int32) <= missing
    indices = np.nonzero(kept)[2].astype(np.uint8).reshape(len(kept), -1)
    mask = kept.reshape(len(kept), -1).repeat(pattern.vector, axis=0).repeat(pattern.group, axis=1)
    return BalancedMatrix(pattern, columns, weights[mask].reshape(rows, -1), indices)


def _check_groups(pattern: Pattern) -> None:
    if pattern.groups_of_block > _MOST_GROUPS:
        raise CostModelError(
            f"A block must have at most {_MOST_GROUPS} groups, as an index is a byte, but got {pattern}. "
            "Take shorter blocks or longer groups."
        )


def _check_indices(indices: NDArray[np.uint8], pattern: Pattern) -> None:
    """Check ``(vectors, blocks, kept groups)`` indices."""
    if indices.size and indices.max() >= pattern.groups_of_block:
        raise CostModelError(
            f"Indices must be below {pattern.groups_of_block}, the groups of a block, but got "
            f"{indices.max()}."
        )
    if (indices[..., 1:] <= indices[..., :-1]).any():
        vector, block, _ = np.argwhere(indices[..., 1:] <= indices[..., :-1])[0]
        raise CostModelError(
            f"Indices of a block must rise, but block {block} of row {vector * pattern.vector} has "
            f"{indices[vector, block].tolist()}."
        )
