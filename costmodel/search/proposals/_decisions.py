"""The decisions of one workload's configs as columns.

``costmodel.features`` sums over the loops of a config, so that a column means the same for every workload.
Among configs of one workload the decisions can speak for themselves: which loop a tile belongs to, and which
buffer a vector width.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Config

# Sketches are the rules that MetaSchedule applied; those with Tensor Cores are sketches of their own. Their
# numbers are names.
SKETCH = "sketch"

# A decision, and the level of a tile, 0 for a number, or the value of a category.
Name = tuple[str, int | str]


@dataclass(frozen=True)
class DecisionColumns:
    """Columns that hold the decisions of configs.

    A tile has one for each level but the outermost, log2 of the product of its factors from there inwards:
    what a block computes of the loop, a virtual thread, and so on. A number has one, asinh of it. Each
    sketch, and each value of any other category, has one that is 1 where it was chosen, else 0. Of a decision
    that a config does not have, columns are NaN, those of categories 0.

    Attributes:
        names: What the columns hold.
    """

    names: tuple[Name, ...]

    @classmethod
    def of(cls, configs: Sequence[Config]) -> Self:
        """Columns for all decisions of these configs, sorted."""
        names = {name for config in configs for name, _ in _values(config)}
        return cls(tuple(sorted(names, key=str)))

    def values(self, configs: Sequence[Config]) -> FloatArray:
        """``(n, q)`` decisions of each config; those that no column is for are left out."""
        absent = [0.0 if isinstance(part, str) else math.nan for _, part in self.names]
        position = {name: i for i, name in enumerate(self.names)}
        values = np.tile(np.array(absent), (len(configs), 1))
        for row, config in zip(values, configs, strict=True):
            for name, value in _values(config):
                if name in position:
                    row[position[name]] = value
        return values


def _values(config: Config) -> Iterator[tuple[Name, float]]:
    """The columns that a config fills, and their values."""
    for decision, value in config.decisions.items():
        if isinstance(value, tuple):
            inner = np.cumsum(np.log2(value[::-1]))[-2::-1]
            yield from (((decision, level), float(size)) for level, size in enumerate(inner, start=1))
        elif isinstance(value, str) or decision == SKETCH:
            yield (decision, str(value)), 1.0
        else:
            yield (decision, 0), math.asinh(value)
