"""The loops of each anchor and how its operands are indexed by them, which is all that traffic depends on.

A loop has one letter. An operand is spelled by its axes: a letter is the loop that indexes it, two letters
are the rows or columns of a window, indexed by ``stride * first + second``: the halo of a convolution. The
order of loops is that in which MetaSchedule tiles them, spatial ones first; of the operands, that in which it
stages them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records._candidate import ConfigBatch

_SPATIAL_PARTS = (5, 4)


@dataclass(frozen=True)
class LoopNest:
    """Loops and operands of an anchor, spelled as above.

    Attributes:
        spatial: Loops over results.
        reduced: Loops that one result accumulates over.
        operands: Axes of each operand.
    """

    spatial: str
    reduced: str
    operands: tuple[str, ...]

    @property
    def loops(self) -> str:
        """All loops, in order."""
        return self.spatial + self.reduced

    def operand_loops(self) -> tuple[tuple[int, ...], ...]:
        """For each operand, the positions of the spatial loops that index it."""
        return tuple(
            tuple(i for i, loop in enumerate(self.spatial) if loop in operand) for operand in self.operands
        )


LOOP_NESTS: Mapping[str, LoopNest] = {
    "matmul": LoopNest("ij", "k", ("i k", "k j")),
    "batch_matmul": LoopNest("bij", "k", ("b i k", "b k j")),
    "conv2d": LoopNest("noyx", "cpq", ("n c yp xq", "o c p q")),
    "conv2d_nhwc": LoopNest("nyxo", "pqc", ("n yp xq c", "p q c o")),
    "depthwise_conv2d": LoopNest("ncyx", "pq", ("n c yp xq", "c p q")),
    "depthwise_conv2d_nhwc": LoopNest("nyxc", "pq", ("n yp xq c", "p q c")),
}


def product(factors: Sequence[FloatArray]) -> FloatArray:
    """Product of ``(n,)`` arrays; there must be one."""
    result = factors[0]
    for factor in factors[1:]:
        result = result * factor
    return result


def level(tiles: Sequence[FloatArray], part: int) -> FloatArray:
    """``(n,)`` product over loops of their factors at one level."""
    return product([tile[:, part] for tile in tiles])


def within(tile: FloatArray, first: int) -> FloatArray:
    """``(n,)`` iterations of a loop from this level inwards."""
    return product([tile[:, part] for part in range(first, tile.shape[1])])


def box_elements(operand: str, extents: Mapping[str, FloatArray], stride: int) -> FloatArray:
    """``(n,)`` elements of an operand that loops of these extents touch, as the dense box that is staged.

    A side is what an affine index covers while its loops run: ``stride * (first - 1) + second`` for a window.
    """
    return product(
        [
            stride * (extents[axis[0]] - 1) + extents[axis[1]] if len(axis) == 2 else extents[axis]
            for axis in operand.split()
        ]
    )


def loop_tiles(batch: ConfigBatch) -> tuple[list[FloatArray], list[FloatArray]]:
    """Factors of the spatial and of the reduction loops that ``batch`` tiles; none for other sketches."""
    tiles = [tile.astype(np.float64) for tile in batch.named("tile.") if tile.ndim == 2]
    return (
        [tile for tile in tiles if tile.shape[1] in _SPATIAL_PARTS],
        [tile for tile in tiles if tile.shape[1] not in _SPATIAL_PARTS],
    )
