"""Wait for each tile when it is needed."""

from costmodel.arrays import Positions
from costmodel.planner.tiles.policies._base import SyncPolicy, column_groups


class TileSync(SyncPolicy):
    """A consumer's tile waits for each of the producer's tiles just before it reads that tile."""

    def groups(self, columns: int) -> Positions:
        return column_groups(columns, 1)
