"""A kernel as the planner sees it: a grid of equal tiles on slots of SMs."""

from dataclasses import dataclass
from math import ceil, prod


@dataclass(frozen=True)
class TiledKernel:
    """A kernel whose thread blocks compute one tile each, all in the same time.

    Tiles start row by row, a row from its first column to its last, and the whole grid once for each split.

    Attributes:
        grid: Rows and columns of tiles of the output, and parts that the reduction of a tile is split into,
            each part a block of its own.
        blocks_per_sm: Blocks that run on an SM at once.
        tile_s: Seconds that a block takes while its SM holds ``blocks_per_sm`` of them.

    Raises:
        ValueError: A number is not positive.
    """

    grid: tuple[int, int, int]
    blocks_per_sm: int
    tile_s: float

    def __post_init__(self) -> None:
        if len(self.grid) != 3 or min(self.grid) < 1:
            raise ValueError(f"grid must be (rows, columns, splits), each at least 1, but got {self.grid}")
        if self.blocks_per_sm < 1:
            raise ValueError(f"blocks_per_sm must be at least 1, but got {self.blocks_per_sm}")
        if not 0.0 < self.tile_s < float("inf"):
            raise ValueError(f"tile_s must be positive and finite, in seconds, but got {self.tile_s}")

    @property
    def tiles(self) -> int:
        """Blocks of the grid."""
        return prod(self.grid)

    def waves(self, sms: int) -> int:
        """``ceil(blocks / (SMs * blocks per SM))``: how often all slots are filled, the last time in part."""
        return ceil(self.tiles / (sms * self.blocks_per_sm))

    def duration_s(self, sms: int) -> float:
        """Seconds of the kernel alone on so many SMs: its waves, each as long as a tile."""
        return self.waves(sms) * self.tile_s

    @classmethod
    def from_duration(
        cls, grid: tuple[int, int, int], blocks_per_sm: int, sms: int, duration_s: float
    ) -> "TiledKernel":
        """The kernel whose waves on so many SMs take a measured or predicted time in all.

        Example:
            >>> TiledKernel.from_duration((2, 24, 1), blocks_per_sm=1, sms=32, duration_s=4e-4).tile_s
            0.0002
        """
        kernel = cls(grid, blocks_per_sm, duration_s)
        return cls(grid, blocks_per_sm, duration_s / kernel.waves(sms))
