"""How often rows of a table are looked up: a histogram from which lookups are drawn and expected."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError

_PARTS = {"h": 0, "w": 10_000, "x": 1000, "y": 100, "z": 10}  # dim: the hottest rows / this; 0 means one row
_WHOLE = 1000  # shares are in per mille


@dataclass(frozen=True)
class Histogram:
    """The share of lookups that goes to the hottest rows of a table.

    Rows fall into six pieces: the hottest one, the others of the hottest 0.01 %, of 0.1 %, of 1 %, of 10 %,
    and the rest. Within a piece all rows are equally likely.

    Attributes:
        rows: Rows of the table.
        per_mille: Share of the lookups that goes to the hottest row, 0.01 %, 0.1 %, 1 % and 10 % of the rows.

    Raises:
        CostModelError: There are no rows, or shares fall, are not from 0 to 1000, or go to a piece without
            rows.

    Example:
        >>> Histogram.zipf(1.05, 1_000_000).per_mille
        (95, 445, 608, 754, 884)
        >>> Histogram.uniform(1_000_000).per_mille
        (0, 0, 1, 10, 100)
    """

    rows: int
    per_mille: tuple[int, ...]

    def __post_init__(self) -> None:
        if self.rows < 1:
            raise CostModelError(f"A table must have a row or more, but got {self.rows}.")
        shares = (0, *self.per_mille, _WHOLE)
        if len(self.per_mille) != len(_PARTS) or list(shares) != sorted(shares):
            raise CostModelError(
                f"Shares of the hottest rows must be {len(_PARTS)} numbers from 0 to {_WHOLE} that do not "
                f"fall, but got {self.per_mille}."
            )
        if any((self.piece_rows == 0) & (self.piece_shares > 0)):
            raise CostModelError(
                f"No share can go to a piece without rows: pieces of {self.rows} rows have "
                f"{self.piece_rows.tolist()}, but got the shares {self.per_mille}."
            )

    @classmethod
    def of_popularity(cls, popularity: NDArray[Any]) -> Self:
        """Of a number for each row, to which the row's share is proportional.

        Raises:
            CostModelError: There are no rows, a number is negative or none is positive.
        """
        rows = len(popularity)
        if not (rows and popularity.min() >= 0 and popularity.sum() > 0):
            raise CostModelError(
                "Popularity must be a number for each row, none of them negative and not all 0, but got "
                f"{popularity}."
            )
        hottest_first = np.sort(popularity)[::-1].cumsum(dtype=np.float64)
        shares = hottest_first[_edges(rows) - 1] / hottest_first[-1]
        return cls(rows, tuple(np.rint(_WHOLE * shares[:-1]).astype(int).tolist()))

    @classmethod
    def of_indices(cls, indices: NDArray[Any], rows: int) -> Self:
        """Of indices that were looked up in a table.

        Take a log that is long beside the table: rows that a short one happens to meet seem hot.

        Raises:
            CostModelError: There are none, or one is not in the table.
        """
        check_indices(indices, rows)
        return cls.of_popularity(np.bincount(np.ravel(indices), minlength=rows))

    @classmethod
    def uniform(cls, rows: int) -> Self:
        """Make all rows equally popular."""
        return cls.of_popularity(np.ones(rows))

    @classmethod
    def zipf(cls, alpha: float, rows: int) -> Self:
        """Make the i-th row as popular as ``i ** -alpha``."""
        return cls.of_popularity(np.arange(1, rows + 1, dtype=np.float64) ** -alpha)

    @classmethod
    def power_law(cls, exponent: float, rows: int) -> Self:
        """Popularity is distributed as a power law: its density falls with ``popularity ** -exponent``.

        Its quantiles are what the rows have.

        Raises:
            CostModelError: The exponent is not above 1.
        """
        if not exponent > 1:
            raise CostModelError(f"The exponent of a power law must be above 1, but got {exponent}.")
        quantiles = (np.arange(rows) + 0.5) / rows
        return cls.of_popularity(quantiles ** (-1 / (exponent - 1)))

    @classmethod
    def of_dims(cls, dims: Mapping[str, int]) -> Self:
        """Of the dims of a workload."""
        return cls(dims["r"], tuple(dims[part] - 1 for part in _PARTS))

    @property
    def dims(self) -> dict[str, int]:
        """What it is of a workload's dims."""
        shares = zip(_PARTS, self.per_mille, strict=True)
        return {"r": self.rows, **{part: share + 1 for part, share in shares}}

    @property
    def piece_rows(self) -> NDArray[np.int64]:
        """``(6,)`` rows of each piece."""
        return np.diff(_edges(self.rows), prepend=0)

    @property
    def piece_shares(self) -> FloatArray:
        """``(6,)`` share of the lookups that goes to each piece; together 1."""
        return np.diff((0, *self.per_mille, _WHOLE)) / _WHOLE

    @property
    def row_shares(self) -> FloatArray:
        """``(6,)`` share that goes to each row of a piece."""
        return self.piece_shares / np.maximum(self.piece_rows, 1)

    def draw(self, count: int, rng: np.random.Generator) -> NDArray[np.int32]:
        """Return ``(count,)`` rows that are looked up; hot rows are scattered over the table."""
        pieces = rng.choice(len(self.piece_shares), count, p=self.piece_shares)
        ends = _edges(self.rows)
        ranks = rng.integers((ends - self.piece_rows)[pieces], ends[pieces])
        return rng.permutation(self.rows).astype(np.int32)[ranks]

    def distinct_rows(self, lookups: float) -> float:
        """Return the expected number of distinct rows among lookups."""
        return float(self.piece_rows @ -np.expm1(lookups * self._log_missed()))

    def most_lookups(self, lookups: int) -> float:
        """Return about how many of the lookups go to the row that is looked up most.

        The largest of n Poisson numbers, by Bernstein's inequality, of the piece where it is largest.
        """
        rows = np.maximum(self.piece_rows, 1)
        means, logs = lookups * self.row_shares, np.log(rows)
        largest = means + np.sqrt(2 * means * logs) + np.where(means > 0, logs / 3, 0)
        return float(min(largest.max(), lookups))

    def misses(self, lookups: int, cached_rows: float) -> float:
        """Expected number of lookups that an LRU cache of so many rows, empty at first, does not serve.

        Until the cache is full each row misses once. From then on a row misses where it was not looked up in
        the characteristic time, which is that in which as many distinct rows are met as the cache has (Che,
        Tung and Wang 2002, "Hierarchical Web caching systems").
        """
        if self.distinct_rows(lookups) <= cached_rows:
            return self.distinct_rows(lookups)
        time = self._lookups_until(cached_rows, lookups)
        missed = float(self.piece_shares @ np.exp(time * self._log_missed()))
        return self.distinct_rows(time) + (lookups - time) * missed

    def _lookups_until(self, rows: float, most: float) -> float:
        """Of how many lookups, up to `most`, so many distinct rows are expected, by bisection."""
        low, high = 0.0, most
        while high - low > 1:
            middle = (low + high) / 2
            low, high = (middle, high) if self.distinct_rows(middle) < rows else (low, middle)
        return low

    def _log_missed(self) -> FloatArray:
        """Return ``(6,)`` logarithm of the probability that one lookup is not of a given row of a piece."""
        return np.log1p(-np.minimum(self.row_shares, 1 - 1e-12))


def check_indices(indices: NDArray[Any], rows: int) -> None:
    """Check that lookups are of rows of a table.

    Raises:
        CostModelError: The table is empty, there are no lookups, or an index is out of range.
    """
    if rows < 1:
        raise CostModelError(f"A table must have a row or more, but got {rows}.")
    if not indices.size:
        raise CostModelError("There must be at least one lookup, but got none.")
    if indices.min() < 0 or indices.max() >= rows:
        raise CostModelError(
            f"Indices must be from 0 to {rows - 1}, the last row of the table, but got {indices.min()} to "
            f"{indices.max()}."
        )


def _edges(rows: int) -> NDArray[np.int64]:
    """Return ``(6,)`` rank behind the last row of each piece, the hottest row having rank 0."""
    ends = [max(1, rows // part) if part else 1 for part in _PARTS.values()]
    return np.array([*ends, rows], dtype=np.int64)
