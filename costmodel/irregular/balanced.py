"""Balanced matrices: where non-zeros may be, how a layer is pruned to it, and how what is left is packed."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from costmodel.errors import CostModelError

_MOST_GROUPS = 256  # of a block: an index is a byte
Weights = TypeVar("Weights")  # an array of NumPy, or a tensor of torch
_ROWS_OF_A_STEP = 1 << 24  # weights that are looked at together: temporary arrays stay below 300 MB
_ROWS, _COLUMNS = 16, 32  # of the left side of mma.sp.m16n8k32
_HALVES = 2  # of the rows, and of the columns
_PLACES = 8  # kept weights that share 16 bits of metadata


@dataclass(frozen=True)
class Pattern:
    """How many weights of each block are kept, and which of them together.

    Attributes:
        sparsity: Share of weights that go, in [0, 1).
        block: Length of a block along a row, within which the number of kept weights is exact.
        vector: Neighbouring rows that keep the same columns; 1 for each row its own.
        group: Neighbouring columns that are kept together; 1 for each column by itself.

    Raises:
        CostModelError: A number is out of its range, or a block is no whole number of groups.

    Example:
        >>> Pattern(0.5, block=4).kept  # two of four
        2
        >>> Pattern(0.95, block=32, vector=32).kept
        2
    """

    sparsity: float
    block: int
    vector: int = 1
    group: int = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not 0 <= self.sparsity < 1:
            raise CostModelError(f"0 <= sparsity < 1 must hold, but got sparsity={self.sparsity}.")
        if min(self.block, self.vector, self.group) < 1:
            raise CostModelError(f"block, vector and group must be positive, but got {self}.")
        if self.block % self.group:
            raise CostModelError(
                f"A block must be a whole number of groups, but got block={self.block}, group={self.group}."
            )

    @classmethod
    def of_dims(cls, dims: Mapping[str, int]) -> Self:
        """The pattern of a workload: sparsity s in percent, block g, vector v, group u, of weights (n, k).

        Raises:
            CostModelError: The numbers are no pattern, or weights of this shape cannot have it.
        """
        pattern = cls(dims["s"] / 100, dims["g"], dims["v"], dims["u"])
        pattern.check_shape((dims["n"], dims["k"]))
        return pattern

    @property
    def groups_of_block(self) -> int:
        """Groups in a block, kept or not."""
        return self.block // self.group

    @property
    def kept_groups(self) -> int:
        """Groups that are kept of each block: the nearest number (the larger of two), and at least one."""
        kept = 1 - Fraction(self.sparsity).limit_denominator(10_000)
        return max(1, math.floor(self.groups_of_block * kept + Fraction(1, 2)))

    @property
    def kept(self) -> int:
        """Weights that are kept of each block of a row."""
        return self.kept_groups * self.group

    def kept_of_row(self, columns: int) -> int:
        """Return the weights that are kept of a row of so many columns."""
        return columns // self.block * self.kept

    @property
    def is_two_of_four(self) -> bool:
        """Whether sparse Tensor Cores can have it."""
        return (self.block, self.kept, self.vector, self.group) == (4, 2, 1, 1)

    def check_shape(self, shape: Sequence[int]) -> None:
        """Check that weights of a shape can have the pattern.

        Raises:
            CostModelError: They are no matrix, or its sides are no multiples of vector and block.
        """
        if len(shape) != 2 or shape[0] % self.vector or shape[1] % self.block or 0 in shape:
            raise CostModelError(
                f"Weights must be a matrix of a multiple of vector={self.vector} rows and a multiple of "
                f"block={self.block} columns, but got the shape {tuple(shape)}. Pad them, or take another "
                "block."
            )


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
        """Return ``(n, k)`` the matrix with its zeros."""
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


def prune(weights: Weights, sparsity: float, block: int, vector: int = 1, group: int = 1) -> Weights:
    """Return the weights with zeros where the smallest of each block were (Cao et al., AAAI 2019, section 3).

    Groups are compared by the sum of their magnitudes; of equal ones the first is kept. Masks are nested:
    what is kept at one sparsity is kept at each lower one, so that a network can be pruned and trained in
    turns.

    Args:
        weights: ``(outputs, inputs)``, an array of NumPy or a tensor of torch; it is left as it is.
        sparsity: Share of weights that go, in [0, 1).
        block: Length of a block along a row, within which the number of kept weights is exact.
        vector: Neighbouring rows that keep the same columns (vector-wise N:M).
        group: Neighbouring columns that are kept together (block-wise N:M, with ``vector``).

    Returns:
        The same kind of array, of the same dtype and on the same device.

    Raises:
        CostModelError: The weights are not finite, or cannot have the pattern.

    Example:
        >>> prune(np.array([[1.0, -3.0, 2.0, 0.5]]), 0.5, block=4)
        array([[ 0., -3.,  2.,  0.]])
    """
    pattern = Pattern(sparsity, block, vector, group)
    prune_: Callable[[Any, Pattern], Any] = _prune_array if isinstance(weights, np.ndarray) else _prune_tensor
    return prune_(weights, pattern)  # type: ignore[no-any-return]


def balanced_mask(weights: NDArray[Any], pattern: Pattern) -> NDArray[np.bool_]:
    """Return ``(outputs, inputs)`` whether a weight is kept by ``prune``.

    Raises:
        CostModelError: The weights are not finite, or cannot have the pattern.
    """
    pattern.check_shape(weights.shape)
    rows, columns = weights.shape
    mask = np.empty((rows // pattern.vector, columns // pattern.group), dtype=bool)
    step = max(1, _ROWS_OF_A_STEP // (columns * pattern.vector))
    for first in range(0, len(mask), step):
        part = weights[first * pattern.vector : (first + step) * pattern.vector]
        sizes = _sizes(part, pattern).reshape(-1, pattern.groups_of_block)
        mask[first : first + step] = _largest(sizes, pattern.kept_groups).reshape(-1, mask.shape[1])
    return mask.repeat(pattern.vector, axis=0).repeat(pattern.group, axis=1)


def _sizes(weights: NDArray[Any], pattern: Pattern) -> NDArray[np.float32]:
    """Return ``(vectors, groups)`` sums of magnitudes."""
    sizes = np.abs(weights).astype(np.float32)
    shape = (-1, pattern.vector, weights.shape[1] // pattern.group, pattern.group)
    sums: NDArray[np.float32] = (
        sizes.reshape(shape).sum(axis=(1, 3)) if pattern.vector * pattern.group > 1 else sizes
    )
    if not np.isfinite(sums).all():
        raise CostModelError("Weights must be finite to be compared by magnitude, but some are not.")
    return sums


def _largest(sizes: NDArray[np.float32], count: int) -> NDArray[np.bool_]:
    """``(blocks, groups)`` whether one is of the ``count`` largest of its row, the first of equal ones."""
    smallest = np.partition(sizes, -count, axis=1)[:, -count, None]
    kept: NDArray[np.bool_] = sizes >= smallest
    surplus = kept.sum(axis=1, dtype=np.int32) - count
    rows = np.flatnonzero(surplus)  # of equal ones too many
    equal = sizes[rows] == smallest[rows]
    from_last = np.cumsum(equal[:, ::-1], axis=1, dtype=np.int32)[:, ::-1]
    kept[rows] &= ~equal | (from_last > surplus[rows, None])
    return kept


def _prune_array(weights: NDArray[Any], pattern: Pattern) -> NDArray[Any]:
    return np.where(balanced_mask(weights, pattern), weights, np.zeros((), weights.dtype))


def _prune_tensor(weights: Any, pattern: Pattern) -> Any:
    import torch

    if not isinstance(weights, torch.Tensor):
        raise CostModelError(
            f"Weights must be an array of NumPy or a tensor of torch, but got {type(weights).__name__}."
        )
    mask = balanced_mask(weights.detach().float().cpu().numpy(), pattern)
    kept = torch.from_numpy(mask).to(weights.device)
    return torch.where(kept, weights, torch.zeros((), dtype=weights.dtype, device=weights.device))


def random_layer(
    outputs: int, inputs: int, pattern: Pattern, dtype: DTypeLike, rng: np.random.Generator
) -> BalancedMatrix:
    """Return normal weights ``(outputs, inputs)``, pruned, for results of order 1 from normal inputs."""
    weights = rng.standard_normal((outputs, inputs), dtype=np.float32)
    weights *= np.float32(pattern.kept_of_row(inputs) ** -0.5)
    pruned = prune(weights, pattern.sparsity, pattern.block, vector=pattern.vector, group=pattern.group)
    matrix = pack(pruned, pattern)
    return replace(matrix, values=matrix.values.astype(dtype))


def two_of_four_metadata(matrix: BalancedMatrix) -> NDArray[np.uint32]:
    """``(n k / 32,)`` words: for 16 rows, every 32 columns, row r of 8 and half h of the columns one word.

    A word has two bits for each of the eight kept weights of row r in these 16 columns, the first one
    lowest, and above them those of row r + 8: what lane 4 r + h brings to ``mma.sp.m16n8k32`` with sparsity
    selector 0 (PTX ISA, "Sparse matrix storage"; CUTLASS, ``reorder_meta``).

    Raises:
        CostModelError: The matrix is not two of four, or its sides are no multiples of 16 and 32.
    """
    rows, columns = matrix.shape
    if not matrix.pattern.is_two_of_four or rows % _ROWS or columns % _COLUMNS:
        raise CostModelError(
            f"Metadata are of two of four, with a multiple of {_ROWS} rows and of {_COLUMNS} columns, but "
            f"got {matrix.pattern} and the shape {matrix.shape}."
        )
    places = matrix.indices.reshape(rows // _ROWS, _HALVES, 8, columns // _COLUMNS, _HALVES, _PLACES)
    sixteen = (places.astype(np.uint32) << np.arange(0, 16, 2, dtype=np.uint32)).sum(axis=-1, dtype=np.uint32)
    words = sixteen[:, 0] | sixteen[:, 1] << np.uint32(16)  # (16 rows, r, 32 columns, h)
    return np.ascontiguousarray(words.transpose(0, 2, 1, 3)).ravel()
