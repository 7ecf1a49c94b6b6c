"""Pruning by magnitude to a balanced pattern."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.balanced._pattern import Pattern

Weights = TypeVar("Weights")  # an array of NumPy, or a tensor of torch

_ROWS_OF_A_STEP = 1 << 24  # weights that are looked at together: temporary arrays stay below 300 MB


def prune(weights: Weights, sparsity: float, block: int, vector: int = 1, group: int = 1) -> Weights:
    """Weights with zeros where the smallest of each block were (Cao et al., AAAI 2019, section 3).

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
    """``(outputs, inputs)`` whether a weight is kept by ``prune``.

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
    """``(vectors, groups)`` sums of magnitudes."""
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
