"""Lookups by bags: their lengths, what is summed, gradients, and what is wrong."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from costmodel.errors import CostModelError
from costmodel.irregular import Bags, Histogram, Lookups
from costmodel.irregular.lookups import bag_sums, random_table, table_gradient

pytestmark = pytest.mark.white_box

SPREADS = (1, 2, 3, 4)
DIMS = {"d": 6, **Bags(300, 7, 3).dims, **Histogram.zipf(0.9, 500).dims}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize(("count", "mean"), [(1, 1), (1, 40), (7, 3), (512, 1), (8192, 80)])
def test_bags_have_exactly_the_lookups_that_the_dims_say(count: int, mean: int, spread: int) -> None:
    bags = Bags(count, mean, spread)
    assert bags.lengths.sum() == bags.lookups == count * mean
    assert len(bags.lengths) == count
    assert bags.lengths.min() >= 0
    offsets = bags.draw_offsets(np.random.default_rng(0))
    assert offsets.dtype == np.int32
    assert offsets[0] == 0
    np.testing.assert_array_equal(np.sort(np.diff(offsets)), np.sort(bags.lengths))


@pytest.mark.parametrize(
    ("spread", "drawn"),
    [
        (1, lambda rng, size: np.full(size, 50.0)),
        (2, lambda rng, size: rng.uniform(0, 100, size)),
        (3, lambda rng, size: rng.exponential(50, size)),
        (4, lambda rng, size: rng.pareto(1.5, size) * 25),
    ],
)
def test_lengths_are_spread_as_said(spread: int, drawn: Callable[..., Any]) -> None:
    levels = np.linspace(0.02, 0.95, 12)
    wanted = np.quantile(drawn(np.random.default_rng(0), 200_000), levels)
    np.testing.assert_allclose(np.quantile(Bags(4096, 50, spread).lengths, levels), wanted, rtol=0.06, atol=1)


def test_all_spreads_but_the_fixed_have_empty_bags() -> None:
    empty = {spread: int((Bags(2048, 32, spread).lengths == 0).sum()) for spread in SPREADS}
    assert empty[1] == 0
    assert min(empty[spread] for spread in SPREADS[1:]) >= 10


@pytest.mark.parametrize("spread", SPREADS)
def test_measured_lengths_become_the_bags_most_like_them(spread: int) -> None:
    bags = Bags(500, 12, spread)
    lengths = np.random.default_rng(0).permutation(bags.lengths)
    assert Bags.of_lengths(lengths) == bags
    assert Bags.of_lengths(np.random.default_rng(1).poisson(12, 500)).spread in (1, 2)


def test_lookups_become_a_workload_and_are_drawn_from_it_again() -> None:
    lookups = Lookups.draw(DIMS, np.random.default_rng(0))
    again = lookups.dims(width=6)
    assert again.keys() == DIMS.keys()
    histogram = "hwxyz"
    assert {dim: size for dim, size in again.items() if dim not in histogram} == {
        dim: size for dim, size in DIMS.items() if dim not in histogram
    }
    # The hottest of 2,100 lookups in 500 rows are partly so by chance.
    assert [again[dim] for dim in histogram] == pytest.approx([DIMS[dim] for dim in histogram], abs=60)


def test_equal_dims_have_equal_lookups() -> None:
    first, second = (Lookups.draw(DIMS, np.random.default_rng(9)) for _ in range(2))
    np.testing.assert_array_equal(first.indices, second.indices)
    np.testing.assert_array_equal(first.offsets, second.offsets)
    assert abs(np.corrcoef(np.arange(300), first.lengths)[0, 1]) < 0.3  # bags come in any order


def test_lookups_are_ordered_by_row_and_within_by_bag() -> None:
    lookups = Lookups(9, np.array([4, 1, 4, 0, 4]), np.array([0, 2, 2, 4, 5]))
    assert lookups.bags.tolist() == [0, 0, 2, 2, 3]
    assert lookups.by_row.tolist() == [3, 1, 0, 2, 4]
    many = Lookups.draw(DIMS, np.random.default_rng(0))
    pairs = list(zip(many.indices[many.by_row].tolist(), many.bags[many.by_row].tolist(), strict=True))
    assert pairs == sorted(zip(many.indices.tolist(), many.bags.tolist(), strict=True))


def test_sums_and_gradients_are_those_of_loops() -> None:
    rng = np.random.default_rng(5)
    lookups = Lookups.draw({**DIMS, "b": 30}, rng)
    table = rng.standard_normal((500, 6))
    weights, gradient = rng.standard_normal(len(lookups.indices)), rng.standard_normal((30, 6))
    sums, of_table = np.zeros((30, 6)), np.zeros((500, 6))
    for bag in range(30):
        for lookup in range(lookups.offsets[bag], lookups.offsets[bag + 1]):
            sums[bag] += weights[lookup] * table[lookups.indices[lookup]]
            of_table[lookups.indices[lookup]] += weights[lookup] * gradient[bag]
    assert (np.diff(lookups.offsets) == 0).any()
    np.testing.assert_allclose(bag_sums(lookups, table, weights), sums, atol=1e-12)
    rows, of_rows = table_gradient(lookups, gradient, weights)
    assert rows.tolist() == sorted(set(lookups.indices.tolist()))
    np.testing.assert_allclose(of_rows, of_table[rows], atol=1e-12)
    assert not np.delete(of_table, rows, axis=0).any()


def test_a_large_table_has_rows_that_differ() -> None:
    table = random_table(600_000, 32, np.random.default_rng(0)).reshape(600_000, 32)  # repeats once
    assert table.dtype == np.float32
    assert len(np.unique(table[:, 0])) > 500_000
    assert abs(table.std() - 1) < 0.01


INDICES = np.array([0, 3, 2])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Lookups(3, INDICES, np.array([0, 3])), "from 0 to 2, the last row of the table, .* 0 to 3"),
        (lambda: Lookups(9, INDICES - 1, np.array([0, 3])), "got -1 to 2"),
        (lambda: Lookups(0, INDICES, np.array([0, 3])), "A table must have a row or more, but got 0"),
        (lambda: Lookups(9, INDICES, np.array([0, 2, 1, 3])), "bag 1 begins at 2 and ends at 1"),
        (lambda: Lookups(9, INDICES, np.array([0, 2])), r"from 0 to 3, .* got \[0 2\]"),
        (lambda: Lookups(9, INDICES, np.array([1, 3])), r"from 0 to 3, .* got \[1 3\]"),
        (lambda: Lookups(9, INDICES, np.array([0])), "from 0 to 3"),
        (lambda: Lookups(9, np.array([], int), np.array([0, 0])), "at least one lookup"),
        (lambda: Bags(0, 1), "at least one bag"),
        (lambda: Bags(1, 0), "of at least one lookup"),
        (lambda: Bags(1, 1, 5), "1 fixed, 2 uniform, 3 exponential or 4 power law, but got 5"),
        (lambda: Bags.of_lengths(np.array([])), "at least one bag"),
    ],
)
def test_what_is_wrong_with_lookups_is_said(make: Callable[[], object], message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        make()
