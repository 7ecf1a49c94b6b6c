"""Contract of a policy: for which tiles of the producer a tile of the consumer waits, and when."""

from abc import ABC, abstractmethod

import numpy as np

from costmodel.arrays import Positions


class SyncPolicy(ABC):
    """How a consumer's tile waits for the tiles of the producer's rows that it reads.

    A consumer's tile reduces over the columns of the producer's output. Each wait is for a group of columns;
    after it the tile works on these, an equal part of its reduction, and then waits for the next.
    """

    @abstractmethod
    def groups(self, columns: int) -> Positions:
        """``(w, n)`` columns of the producer that each of ``w`` waits is for, in the order of the waits.

        Raises:
            ValueError: The columns do not fall into equal groups.
        """


def column_groups(columns: int, together: int) -> Positions:
    """``(columns / together, together)`` groups whose columns are as far from one another as can be.

    Raises:
        ValueError: ``together`` does not divide ``columns``.
    """
    if together < 1 or columns % together:
        raise ValueError(f"the stride must divide the {columns} columns of the producer, but got {together}")
    return np.arange(columns).reshape(together, -1).T
