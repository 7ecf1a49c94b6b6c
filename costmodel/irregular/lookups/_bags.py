"""How many lookups bags have."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError

_TAIL = 1.5  # of the power law: longer bags than x are as frequent as x ** -1.5
_QUANTILES: Mapping[int, Callable[[FloatArray], FloatArray]] = {
    1: np.ones_like,
    2: lambda levels: levels,
    3: lambda levels: -np.log1p(-levels),
    4: lambda levels: (1 - levels) ** (-1 / _TAIL) - 1,
}


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
        """Those with the nearest mean, and the spread that deviates from it most alike.

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
        """``(count + 1,)`` first lookup of each bag, and behind the last; bags in any order."""
        return np.concatenate([[0], rng.permutation(self.lengths).cumsum()]).astype(np.int32)

    @property
    def excess(self) -> float:
        """By how many lookups the longest of as many normal lengths would be above the mean.

        Of blocks of n bags in any order, the busiest has about the larger of ``longest + (n - 1) * mean``
        (the longest bag comes with average ones) and ``n * mean + excess * sqrt(n * (1 - n / count))``
        (chance brings long ones together), and never more than ``n * longest``.
        """
        return float(self.lengths.std() * np.sqrt(2 * np.log(self.count)))
