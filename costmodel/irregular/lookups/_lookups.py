"""Lookups in a table, by bags."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import CostModelError
from costmodel.irregular.lookups._bags import Bags
from costmodel.irregular.lookups._histogram import Histogram, check_indices


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
        """Lookups that have the facts of a workload's dims."""
        bags = Bags.of_dims(dims)
        indices = Histogram.of_dims(dims).draw(bags.lookups, rng)
        return cls(dims["r"], indices, bags.draw_offsets(rng))

    def dims(self, width: int) -> dict[str, int]:
        """Dims of the workload that is most like them, of rows of a width."""
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
