"""Wait once, for the whole row."""

from costmodel.arrays import Positions
from costmodel.planner.tiles.policies._base import SyncPolicy, column_groups


class RowSync(SyncPolicy):
    """A consumer's tile waits once, until all tiles of the rows that it reads are done."""

    def groups(self, columns: int) -> Positions:
        return column_groups(columns, columns)
