"""Histograms of lookups: what they say of distributions, what is drawn from them, and what they expect."""

from collections import OrderedDict
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular import Histogram
from costmodel.irregular.lookups import missed_rows, row_bytes

pytestmark = pytest.mark.white_box

ROWS = 20_000
FRACTIONS = (1 / ROWS, 1e-4, 1e-3, 1e-2, 1e-1)
HISTOGRAMS = [
    Histogram.uniform(ROWS),
    Histogram.zipf(0.6, ROWS),
    Histogram.zipf(1.05, ROWS),
    Histogram.zipf(1.2, ROWS),
    Histogram.power_law(1.7, ROWS),
    Histogram(ROWS, (0, 0, 500, 500, 900)),  # neither the hottest rows nor the others of the hottest 1 %
    Histogram(ROWS, (1000, 1000, 1000, 1000, 1000)),
]


def hottest_shares(popularity: NDArray[np.float64]) -> list[float]:
    """Share of the hottest rows, one fraction after the other."""
    ordered = sorted(popularity.tolist(), reverse=True)
    return [sum(ordered[: max(1, round(len(ordered) * part))]) / sum(ordered) for part in FRACTIONS]


@pytest.mark.parametrize("alpha", [0.0, 0.6, 0.9, 1.05, 1.2])
def test_zipf_has_the_shares_of_its_hottest_rows(alpha: float) -> None:
    wanted = hottest_shares(np.array([rank**-alpha for rank in range(1, ROWS + 1)]))
    np.testing.assert_allclose(Histogram.zipf(alpha, ROWS).per_mille, 1000 * np.array(wanted), atol=0.5001)


def test_uniform_is_zipf_without_a_slope() -> None:
    assert Histogram.uniform(ROWS) == Histogram.zipf(0, ROWS) == Histogram(ROWS, (0, 0, 1, 10, 100))


def test_a_power_law_is_that_of_numbers_drawn_from_it() -> None:
    drawn = np.random.default_rng(0).pareto(2.5 - 1, 400_000) + 1  # density falls with x ** -2.5
    # Shares of a sample with so heavy a tail vary, those of many rows least.
    np.testing.assert_allclose(
        Histogram.power_law(2.5, 400_000).per_mille[2:], Histogram.of_popularity(drawn).per_mille[2:], atol=25
    )


def test_indices_have_the_histogram_of_their_counts() -> None:
    indices = np.repeat([7, 3, 11, 12], [60, 30, 5, 5])
    assert Histogram.of_indices(indices, 1000).per_mille == (600, 600, 600, 1000, 1000)
    assert Histogram.of_indices(indices, 20).per_mille == (600, 600, 600, 600, 900)


@pytest.mark.parametrize("histogram", HISTOGRAMS)
def test_dims_are_whole_numbers_from_1_that_say_all(histogram: Histogram) -> None:
    dims = histogram.dims
    assert list(dims) == ["r", "h", "w", "x", "y", "z"]
    assert min(dims.values()) >= 1
    assert Histogram.of_dims({"d": 3, **dims}) == histogram


@pytest.mark.parametrize("histogram", HISTOGRAMS)
def test_what_is_drawn_has_the_histogram(histogram: Histogram) -> None:
    drawn = histogram.draw(2_000_000, np.random.default_rng(3))
    assert drawn.dtype == np.int32
    assert drawn.min() >= 0
    assert drawn.max() < ROWS
    ordered = np.sort(np.bincount(drawn, minlength=ROWS))[::-1] / len(drawn)
    # The hottest pieces that have a share come first; within one, chance makes some rows hotter than others.
    pieces = np.argsort(-histogram.row_shares, kind="stable")
    ends = histogram.piece_rows[pieces].cumsum() - 1
    np.testing.assert_allclose(ordered.cumsum()[ends], histogram.piece_shares[pieces].cumsum(), atol=0.03)


def test_hot_rows_are_scattered_over_the_table() -> None:
    drawn = Histogram(ROWS, (0, 0, 0, 0, 1000)).draw(100_000, np.random.default_rng(0))
    counts, _ = np.histogram(drawn, bins=10, range=(0, ROWS))
    assert counts.min() > 5000  # of 10,000 each


def test_the_same_seed_draws_the_same() -> None:
    first, second = (Histogram.zipf(1, 99).draw(50, np.random.default_rng(4)) for _ in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("lookups", [1, 100, 20_000, 500_000])
@pytest.mark.parametrize("histogram", HISTOGRAMS)
def test_distinct_rows_are_those_of_draws(histogram: Histogram, lookups: int) -> None:
    rng = np.random.default_rng(1)
    repeats = 200 if lookups < 1000 else 5
    counted = np.mean([len(np.unique(histogram.draw(lookups, rng))) for _ in range(repeats)])
    assert histogram.distinct_rows(lookups) == pytest.approx(counted, rel=0.04, abs=0.01)


@pytest.mark.parametrize("lookups", [3000, 60_000, 500_000])
@pytest.mark.parametrize("histogram", HISTOGRAMS)
def test_the_row_that_is_looked_up_most_is_that_of_draws(histogram: Histogram, lookups: int) -> None:
    rng = np.random.default_rng(1)
    counted = np.mean([np.bincount(histogram.draw(lookups, rng)).max() for _ in range(5)])
    # Of rows that are looked up a few times Bernstein's inequality says too much, by less than two.
    assert 0.95 * counted <= histogram.most_lookups(lookups) <= 1.25 * counted + 2


def misses_of_lru(indices: NDArray[np.int32], rows: int) -> int:
    cache: OrderedDict[int, None] = OrderedDict()
    missed = 0
    for row in indices.tolist():
        missed += row not in cache
        cache[row] = None
        cache.move_to_end(row)
        if len(cache) > rows:
            cache.popitem(last=False)
    return missed


@pytest.mark.parametrize("cached", [50, 1500, 9000, 19_000, 30_000])
@pytest.mark.parametrize("histogram", HISTOGRAMS[:5])
def test_misses_are_those_of_a_cache_of_the_rows_used_last(histogram: Histogram, cached: int) -> None:
    indices = histogram.draw(60_000, np.random.default_rng(2))
    assert histogram.misses(60_000, cached) == pytest.approx(misses_of_lru(indices, cached), rel=0.03)


def test_a_table_that_fits_into_the_cache_is_read_once() -> None:
    histogram = Histogram.uniform(1000)
    assert missed_rows(histogram, 100_000, 64) == histogram.distinct_rows(100_000)
    half = Histogram.uniform(400_000)  # 100 MB, of which a cache of 50 MB has half
    assert missed_rows(half, 10_000_000, 64) / 10_000_000 == pytest.approx(0.5, abs=0.05)


def test_one_lookup_is_of_one_row() -> None:
    assert Histogram.uniform(1_000_000).most_lookups(1) == 1


@pytest.mark.parametrize("width", [1, 3, 8, 33, 64, 100, 255])
def test_a_row_takes_the_sectors_that_it_lies_in(width: int) -> None:
    sectors = [
        (4 * (row + 1) * width - 1) // 32 - 4 * row * width // 32 + 1
        for row in range(8)  # all places
    ]
    assert row_bytes(width) == pytest.approx(32 * np.mean(sectors))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Histogram(0, (0, 0, 0, 0, 0)), "a row or more, but got 0"),
        (lambda: Histogram(9, (0, 0, 0, 0)), "5 numbers from 0 to 1000"),
        (lambda: Histogram(20_000, (0, 0, 9, 8, 9)), "do not fall"),
        (lambda: Histogram(20_000, (0, 0, 0, 0, 1001)), "from 0 to 1000"),
        (lambda: Histogram(20_000, (-1, 0, 0, 0, 0)), "from 0 to 1000"),
        (lambda: Histogram(500, (1, 1, 2, 2, 2)), "No share can go to a piece without rows"),
        (lambda: Histogram.of_indices(np.array([0, 5]), 5), "from 0 to 4, .* got 0 to 5"),
        (lambda: Histogram.of_indices(np.array([-1, 2]), 5), "got -1 to 2"),
        (lambda: Histogram.of_indices(np.array([], dtype=int), 5), "at least one lookup"),
        (lambda: Histogram.of_indices(np.array([0]), 0), "a row or more"),
        (lambda: Histogram.of_popularity(np.zeros(3)), "not all 0"),
        (lambda: Histogram.of_popularity(np.array([1, -1, 3])), "none of them negative"),
        (lambda: Histogram.of_popularity(np.array([])), "a number for each row"),
        (lambda: Histogram.power_law(1.0, 5), "above 1, but got 1.0"),
    ],
)
def test_what_is_no_histogram_is_said(make: Callable[[], Histogram], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        make()
