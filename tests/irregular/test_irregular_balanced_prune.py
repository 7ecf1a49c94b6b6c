"""Pruning to balanced patterns, compared with loops over blocks."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular import Pattern, prune
from costmodel.irregular.balanced import balanced_mask

pytestmark = pytest.mark.white_box

PATTERNS = [
    Pattern(0.5, block=4),
    Pattern(0.75, block=8),
    Pattern(0.9, block=24),
    Pattern(0.6, block=12, vector=4),
    Pattern(0.7, block=24, vector=2, group=4),
    Pattern(0.95, block=8, group=8),  # a block is one group: all of it stays
]
SPARSITIES = (0.0, 0.3, 0.5, 0.55, 0.75, 0.8, 0.9, 0.95, 0.99)


def weights_of(dtype: str, seed: int = 0) -> NDArray[np.float32]:
    """Few different magnitudes, so that many are equal."""
    return np.random.default_rng(seed).integers(-4, 5, (16, 48)).astype(dtype)


def looped(weights: NDArray[np.float32], pattern: Pattern) -> NDArray[np.bool_]:
    mask = np.zeros(weights.shape, dtype=bool)
    for top in range(0, weights.shape[0], pattern.vector):
        for left in range(0, weights.shape[1], pattern.block):
            rows = slice(top, top + pattern.vector)
            starts = range(left, left + pattern.block, pattern.group)
            sizes = [(-float(np.abs(weights[rows, at : at + pattern.group]).sum()), at) for at in starts]
            for _, at in sorted(sizes)[: pattern.kept_groups]:
                mask[rows, at : at + pattern.group] = True
    return mask


@pytest.mark.parametrize("pattern", PATTERNS)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_the_largest_of_each_block_are_kept(pattern: Pattern, dtype: str) -> None:
    weights = weights_of(dtype)
    before = weights.copy()
    pruned = prune(weights, pattern.sparsity, pattern.block, pattern.vector, pattern.group)
    mask = looped(weights, pattern)
    np.testing.assert_array_equal(balanced_mask(weights, pattern), mask)
    np.testing.assert_array_equal(pruned, np.where(mask, weights, 0))
    assert pruned.dtype == weights.dtype
    np.testing.assert_array_equal(weights, before)
    assert (mask.reshape(16, -1, pattern.block).sum(axis=2) == pattern.kept).all()


@pytest.mark.parametrize(("vector", "group"), [(1, 1), (4, 1), (1, 4), (2, 8)])
def test_what_is_kept_at_a_sparsity_is_kept_at_each_lower_one(vector: int, group: int) -> None:
    weights = weights_of("float16", seed=1)
    masks = [balanced_mask(weights, Pattern(sparsity, 24, vector, group)) for sparsity in SPARSITIES]
    for lower, higher in pairwise(masks):
        assert (lower >= higher).all()
    assert masks[0].all()
    assert not masks[-1].all()


def test_pruning_in_turns_ends_where_pruning_at_once_does() -> None:
    weights = np.random.default_rng(2).standard_normal((8, 64)).astype(np.float32)
    in_turns = weights
    for sparsity in (0.5, 0.75, 0.9):
        in_turns = prune(in_turns, sparsity, 32, vector=2)
    np.testing.assert_array_equal(in_turns, prune(weights, 0.9, 32, vector=2))


def test_large_layers_are_pruned_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = Pattern(0.75, block=8, vector=4)
    weights = weights_of("float32")
    whole = balanced_mask(weights, pattern)
    monkeypatch.setattr("costmodel.irregular.balanced._ROWS_OF_A_STEP", 300)
    np.testing.assert_array_equal(balanced_mask(weights, pattern), whole)


@pytest.mark.parametrize(
    ("sparsity", "block", "group", "kept"),
    [
        (0.5, 4, 1, 2),
        (0.95, 32, 1, 2),
        (0.75, 10, 1, 3),
        (0.9, 5, 1, 1),
        (0.99, 4, 1, 1),
        (0.5, 32, 16, 16),
        (0.9, 32, 16, 16),
    ],
)
def test_kept_weights_of_a_block_are_the_nearest_number_and_at_least_a_group(
    sparsity: float, block: int, group: int, kept: int
) -> None:
    assert Pattern(sparsity, block, group=group).kept == kept


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sparsity": 1.0, "block": 4}, "0 <= sparsity < 1 must hold, but got sparsity=1.0"),
        ({"sparsity": -0.1, "block": 4}, "0 <= sparsity < 1"),
        ({"sparsity": 0.5, "block": 0}, "must be positive"),
        ({"sparsity": 0.5, "block": 6, "group": 4}, "whole number of groups, but got block=6, group=4"),
        ({"sparsity": 0.5, "block": 5}, r"multiple of block=5 columns, but got the shape \(16, 48\)"),
        ({"sparsity": 0.5, "block": 4, "vector": 3}, "multiple of vector=3 rows"),
    ],
)
def test_patterns_that_weights_cannot_have_are_refused(settings: dict[str, float], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        prune(weights_of("float32"), **settings)  # type: ignore[arg-type]


def test_weights_that_are_not_finite_are_refused() -> None:
    weights = weights_of("float32")
    weights[3, 5] = np.nan
    with pytest.raises(CostModelError, match="must be finite"):
        prune(weights, 0.5, 4)


@pytest.mark.torch
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_become_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    weights = weights_of("float32")
    tensor = torch.tensor(weights, dtype=getattr(torch, dtype), requires_grad=True)
    pruned = prune(tensor, 0.75, 8, vector=2)
    assert isinstance(pruned, torch.Tensor)
    assert pruned.dtype == tensor.dtype
    np.testing.assert_array_equal(pruned.detach().float().numpy(), prune(weights, 0.75, 8, vector=2))
    pruned.sum().backward()  # gradients reach what is kept
    np.testing.assert_array_equal(
        tensor.grad.float().numpy() != 0, balanced_mask(weights, Pattern(0.75, 8, 2))
    )


@pytest.mark.torch
def test_lists_are_no_weights() -> None:
    pytest.importorskip("torch")
    with pytest.raises(CostModelError, match="array of NumPy or a tensor of torch, but got list"):
        prune([[1.0, 2.0]], 0.5, 2)
