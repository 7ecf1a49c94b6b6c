"""Where a balanced matrix may have its non-zeros."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Self

from costmodel.errors import CostModelError


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
        """Weights that are kept of a row of so many columns."""
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
