"""Wait for tiles that are read together."""

from dataclasses import dataclass

from costmodel.arrays import Positions
from costmodel.planner.tiles.policies._base import SyncPolicy, column_groups


@dataclass(frozen=True)
class StridedSync(SyncPolicy):
    """A consumer's tile waits for several of the producer's tiles, equally far apart, read together.

    So are read the gate and the value of a gated layer (2), or queries, keys and values of attention (3),
    where one matrix product computes them side by side.

    Attributes:
        together: Tiles that are read together.
    """

    together: int = 2

    def groups(self, columns: int) -> Positions:
        return column_groups(columns, self.together)
