"""The compressed format, compared with SciPy and loops."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from costmodel.errors import CostModelError
from costmodel.irregular import Pattern, pack, prune
from costmodel.irregular.balanced import BalancedMatrix, balanced_mask, random_layer, two_of_four_metadata

pytestmark = pytest.mark.white_box

PATTERNS = [
    Pattern(0.5, block=4),
    Pattern(0.9, block=24),
    Pattern(0.6, block=12, vector=4),
    Pattern(0.7, block=24, vector=2, group=4),
    Pattern(0.0, block=8),
]


def layer_of(pattern: Pattern) -> BalancedMatrix:
    return random_layer(16, 48, pattern, np.float32, np.random.default_rng(0))


@pytest.mark.parametrize("pattern", PATTERNS)
def test_what_was_packed_is_unpacked(pattern: Pattern) -> None:
    weights = np.random.default_rng(1).standard_normal((16, 48)).astype(np.float16)
    pruned = prune(weights, pattern.sparsity, pattern.block, pattern.vector, pattern.group)
    matrix = pack(pruned, pattern)
    assert matrix.values.shape == (16, 48 // pattern.block * pattern.kept)
    np.testing.assert_array_equal(matrix.unpack(), pruned)
    assert matrix.unpack().dtype == np.float16


@pytest.mark.parametrize("pattern", PATTERNS)
def test_columns_make_the_matrix_that_scipy_multiplies(pattern: Pattern) -> None:
    matrix = layer_of(pattern)
    columns = matrix.column_indices.repeat(pattern.vector, axis=0)
    starts = np.arange(17) * columns.shape[1]
    rows = sparse.csr_array((matrix.values.ravel(), columns.ravel(), starts), shape=(16, 48))
    x = np.random.default_rng(2).standard_normal((5, 48))
    np.testing.assert_allclose((rows @ x.T).T, x @ matrix.unpack().T, rtol=1e-6)
    assert rows.nnz == (matrix.unpack() != 0).sum()


def test_blocks_with_fewer_non_zeros_keep_zeros() -> None:
    weights = np.zeros((2, 8), np.float32)
    weights[0, 3] = 5.0
    matrix = pack(weights, Pattern(0.5, block=4))
    np.testing.assert_array_equal(matrix.unpack(), weights)
    np.testing.assert_array_equal(matrix.indices, [[0, 3, 0, 1], [0, 1, 0, 1]])


def test_a_layer_without_non_zeros_gives_zeros() -> None:
    weights = np.zeros((8, 64), np.float32)
    pattern = Pattern(0.9, block=32, vector=2, group=2)
    matrix = pack(prune(weights, 0.9, 32, 2, 2), pattern)
    np.testing.assert_array_equal(matrix.unpack(), weights)


def test_weights_that_are_not_balanced_are_not_packed() -> None:
    weights = np.zeros((4, 12), np.float32)
    weights[2:, 4:7] = 1.0
    with pytest.raises(
        CostModelError, match=r"at most 2 non-zero groups of 4, but block 1 of row 2 has 3\. Prune"
    ):
        pack(weights, Pattern(0.5, block=4, vector=2))


def test_blocks_that_a_byte_cannot_index_are_not_packed() -> None:
    weights = np.zeros((1, 512), np.float32)
    with pytest.raises(CostModelError, match="at most 256 groups"):
        pack(weights, Pattern(0.9, block=512))
    assert pack(weights, Pattern(0.9, block=512, group=2)).indices.shape == (1, 26)


def changed(matrix: BalancedMatrix, at: tuple[int, int], index: int) -> Any:
    indices = matrix.indices.copy()
    indices[at] = index
    return {"indices": indices}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: changed(m, (0, 1), 4), "must be below 4, the groups of a block, but got 4"),
        (lambda m: changed(m, (2, 5), 0), r"must rise, but block 2 of row 2 has \[\d, 0\]"),
        (lambda m: {"indices": m.indices[:, 1:]}, "must have the shapes"),
        (lambda m: {"values": m.values[:, :5]}, "must have the shapes"),
        (lambda m: {"indices": m.indices.astype(np.int64)}, "int64"),
        (lambda m: {"columns": 47}, "multiple of block=4 columns"),
        (lambda m: {"columns": 96}, "must have the shapes"),
    ],
)
def test_wrong_formats_are_refused(change: Any, message: str) -> None:
    matrix = layer_of(Pattern(0.5, block=4))
    with pytest.raises(CostModelError, match=message):
        replace(matrix, **change(matrix))


def test_metadata_say_where_each_kept_weight_of_two_of_four_belongs() -> None:
    matrix = random_layer(32, 64, Pattern(0.5, block=4), np.float32, np.random.default_rng(3))
    words = two_of_four_metadata(matrix)
    assert words.shape == (32 * 64 // 32,)
    mask = balanced_mask(matrix.unpack(), matrix.pattern)
    for row, column in np.argwhere(mask):
        kept = mask[row, : column + 1].sum() - 1  # place among the kept ones of its row
        word = (row // 16 * 2 + column // 32) * 16 + row % 8 * 2 + column % 32 // 16
        bit = row % 16 // 8 * 16 + kept % 8 * 2
        assert words[word] >> bit & 3 == column % 4


@pytest.mark.parametrize(
    ("shape", "pattern"),
    [
        ((16, 48), Pattern(0.5, block=4)),
        ((24, 64), Pattern(0.5, block=4)),
        ((16, 64), Pattern(0.5, block=8)),
        ((16, 64), Pattern(0.75, block=4)),
        ((16, 64), Pattern(0.5, block=4, vector=2)),
    ],
)
def test_metadata_are_of_two_of_four_in_whole_tiles(shape: tuple[int, int], pattern: Pattern) -> None:
    matrix = pack(np.zeros(shape, np.float32), pattern)
    with pytest.raises(CostModelError, match=r"two of four, with a multiple of 16 rows and of 32 columns"):
        two_of_four_metadata(matrix)


def test_random_layers_have_their_pattern_and_results_of_order_one() -> None:
    pattern = Pattern(0.75, block=32, vector=4, group=2)
    weights = random_layer(64, 256, pattern, np.float16, np.random.default_rng(4)).unpack()
    assert weights.dtype == np.float16
    assert (weights != 0).mean() == pytest.approx(0.25, abs=0.01)
    x = np.random.default_rng(5).standard_normal((50, 256))
    assert 0.5 < (x @ weights.T.astype(np.float64)).std() < 2.5
