"""Lookups in a table by bags: how long bags are, which rows they have, what they add up to."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.irregular._histogram import Histogram, check_indices

__all__ = [
    "Bags",
    "Histogram",
    "Lookups",
    "bag_sums",
    "missed_rows",
    "random_table",
    "row_bytes",
    "table_gradient",
]

_TAIL = 1.5  # of the power law: longer bags than x are as frequent as x ** -1.5
_QUANTILES: Mapping[int, Callable[[FloatArray], FloatArray]] = {
    1: np.ones_like,
    2: lambda levels: levels,
    3: lambda levels: -np.log1p(-levels),
    4: lambda levels: (1 - levels) ** (-1 / _TAIL) - 1,
}
_SECTOR_BYTES = 32  # what device memory moves at least
_FLOAT_BYTES = 4
_CACHE_BYTES = 50_000_000  # the L2 cache of an H100 and of an H200
_PERIOD = 16_777_213  # a prime: rows begin at different places of the drawn numbers


@dataclass(frozen=True)
class Bags:
    """Bags of lookups whose lengths are the quantiles of a distribution: equal dims have equal lengths.

    All but the fixed spread have empty bags, unless the mean is large beside their number.

    Attributes:
        count: Number of bags.
        mean: Mean number of lookups of a bag, a whole number.
        spread: 1 fixed, 2 uniform from 0 to twice the mean, 3 exponential, 4 power law.

    Raises:
        CostModelError: A number is not positive, or there is no such spread.

    Example:
        >>> Bags(count=8, mean=4, spread=3).lengths.tolist()
        [0, 1, 2, 2, 4, 4, 7, 12]
    """

    count: int
    mean: int
    spread: int = 1

    def __post_init__(self) -> None:
        if self.count < 1 or self.mean < 1:
            raise CostModelError(
                f"There must be at least one bag of at least one lookup, but got {self.count} and "
                f"{self.mean}."
            )
        if self.spread not in _QUANTILES:
            raise CostModelError(
                f"The spread of lengths must be 1 fixed, 2 uniform, 3 exponential or 4 power law, but got "
                f"{self.spread}."
            )

    @classmethod
    def of_lengths(cls, lengths: NDArray[Any]) -> Self:
        """Return those with the nearest mean, and the spread that deviates from it most alike.

        Raises:
            CostModelError: There are no bags.
        """
        if not len(lengths):
            raise CostModelError("There must be at least one bag, but got none.")
        mean = max(1, round(float(lengths.mean())))
        alike = {
            spread: abs(cls(len(lengths), mean, spread).lengths.std() - lengths.std())
            for spread in _QUANTILES
        }
        return cls(len(lengths), mean, min(alike, key=lambda spread: alike[spread]))

    @classmethod
    def of_dims(cls, dims: Mapping[str, int]) -> Self:
        """Of the dims of a workload."""
        return cls(dims["b"], dims["l"], dims["v"])

    @property
    def dims(self) -> dict[str, int]:
        """What they are of a workload's dims."""
        return {"b": self.count, "l": self.mean, "v": self.spread}

    @property
    def lookups(self) -> int:
        """Lookups of all bags."""
        return self.count * self.mean

    @property
    def lengths(self) -> NDArray[np.int64]:
        """``(count,)`` lookups of each bag: rising quantiles, rounded so that the sum is exact."""
        levels = (np.arange(self.count) + 0.5) / self.count
        quantiles = _QUANTILES[self.spread](levels)
        ends = np.rint(quantiles.cumsum() / quantiles.sum() * self.lookups).astype(np.int64)
        lengths: NDArray[np.int64] = np.diff(ends, prepend=0)
        return lengths

    def draw_offsets(self, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return ``(count + 1,)`` first lookup of each bag, and behind the last; bags in any order."""
        return np.concatenate([[0], rng.permutation(self.lengths).cumsum()]).astype(np.int32)

    @property
    def excess(self) -> float:
        """By how many lookups the longest of as many normal lengths would be above the mean.

        Of blocks of n bags in any order, the busiest has about the larger of ``longest + (n - 1) * mean``
        (the longest bag comes with average ones) and ``n * mean + excess * sqrt(n * (1 - n / count))``
        (chance brings long ones together), and never more than ``n * longest``.
        """
        return float(self.lengths.std() * np.sqrt(2 * np.log(self.count)))


@dataclass(frozen=True)
class Lookups:
    """What is looked up in a table.

    Attributes:
        rows: Rows of the table.
        indices: ``(lookups,)`` row of each lookup.
        offsets: ``(bags + 1,)`` first lookup of each bag, and behind the last one.

    Raises:
        CostModelError: The table is empty, an index is out of range, or offsets do not rise from 0 to the
            number of lookups.

    Example:
        >>> lookups = Lookups(100, np.array([7, 7, 3]), np.array([0, 2, 2, 3]))
        >>> lookups.bags.tolist()  # the second bag is empty
        [0, 0, 2]
    """

    rows: int
    indices: NDArray[Any]
    offsets: NDArray[Any]

    def __post_init__(self) -> None:
        check_indices(self.indices, self.rows)
        if len(self.offsets) < 2 or self.offsets[0] != 0 or self.offsets[-1] != len(self.indices):
            raise CostModelError(
                f"Offsets must go from 0 to {len(self.indices)}, the number of lookups, but got "
                f"{self.offsets}."
            )
        if (falls := np.flatnonzero(np.diff(self.offsets) < 0)).size:
            bag = int(falls[0])
            raise CostModelError(
                f"Offsets must not fall, but bag {bag} begins at {self.offsets[bag]} and ends at "
                f"{self.offsets[bag + 1]}."
            )

    @classmethod
    def draw(cls, dims: Mapping[str, int], rng: np.random.Generator) -> Self:
        """Return lookups that have the facts of a workload's dims."""
        bags = Bags.of_dims(dims)
        indices = Histogram.of_dims(dims).draw(bags.lookups, rng)
        return cls(dims["r"], indices, bags.draw_offsets(rng))

    def dims(self, width: int) -> dict[str, int]:
        """Return the dims of the workload that is most like them, of rows of a width."""
        histogram = Histogram.of_indices(self.indices, self.rows)
        return {"d": width, **Bags.of_lengths(self.lengths).dims, **histogram.dims}

    @property
    def lengths(self) -> NDArray[Any]:
        """``(bags,)`` lookups of each bag."""
        return np.diff(self.offsets)

    @property
    def bags(self) -> NDArray[np.int32]:
        """``(lookups,)`` bag of each lookup."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @property
    def by_row(self) -> NDArray[np.intp]:
        """``(lookups,)`` positions of the lookups ordered by row, and those of one row by bag."""
        return np.argsort(self.indices, kind="stable")


def row_bytes(width: int) -> float:
    """Return the mean bytes of the sectors that a row of so many float32 numbers lies in."""
    length = _FLOAT_BYTES * width
    return float(length + _SECTOR_BYTES - gcd(length, _SECTOR_BYTES))


def missed_rows(histogram: Histogram, lookups: int, width: int) -> float:
    """Expected number of lookups whose row comes from device memory: it is not in an L2 cache of 50 MB."""
    return histogram.misses(lookups, _CACHE_BYTES / row_bytes(width))


def random_table(rows: int, width: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """Return ``(rows * width,)`` normal numbers, which repeat after millions: drawing them all takes long."""
    drawn = rng.standard_normal(min(rows * width, _PERIOD), dtype=np.float32)
    return np.resize(drawn, rows * width)


def bag_sums(lookups: Lookups, table: NDArray[Any], weights: NDArray[Any]) -> FloatArray:
    """Return ``(bags, width)``: the sum over the lookups of each bag of weight x row; 0 of an empty bag.

    Args:
        lookups: What is looked up.
        table: ``(rows, width)``.
        weights: ``(lookups,)``.
    """
    rows, matrix = _matrix(lookups, weights)
    return np.asarray(matrix @ table[rows].astype(np.float64))


def table_gradient(
    lookups: Lookups, gradient: NDArray[Any], weights: NDArray[Any]
) -> tuple[NDArray[Any], FloatArray]:
    """Return the rows that are looked up, each once, and ``(rows, width)`` the gradient of each.

    Args:
        lookups: What is looked up.
        gradient: ``(bags, width)`` of the sums.
        weights: ``(lookups,)``.
    """
    rows, matrix = _matrix(lookups, weights)
    return rows, np.asarray(matrix.T @ gradient.astype(np.float64))


def _matrix(lookups: Lookups, weights: NDArray[Any]) -> tuple[NDArray[Any], Any]:
    """Return the distinct rows, and the sparse ``(bags, distinct rows)`` matrix of the weights."""
    from scipy.sparse import csr_array

    rows, positions = np.unique(lookups.indices, return_inverse=True)
    shape = (len(lookups.lengths), len(rows))
    return rows, csr_array((weights.astype(np.float64), positions, lookups.offsets), shape=shape)
