"""Numbers of a tiled loop nest that facts of its launch are made of, as columns over many configs.

Multi-level tiling binds the first three levels of each spatial loop to the grid, to virtual threads and to
threads, and stages the box of each operand that a block reads in each step of the outermost reductions. Sizes
of grid and boxes are products and sums of tile factors; what is copied follows from boxes, threads and the
width of a vector. Everything else is a multiple of these, see ``_fitted_launches``.

Notations:
    n: configs. A column is ``(n,)`` float64.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.kernels.metaschedule._shared_memory import FRAGMENT_SIDE, Side, bytes_of, side_extents, side_of
from costmodel.kernels.metaschedule.programs._facts import Block

Columns = Mapping[str, NDArray[Any]]

_SPATIAL_PARTS, _REDUCTION_PARTS = 5, 3
_WARP = 32
_PADDING, _PADDED = 8, 32  # a row that is staged for fragments is 8 elements longer than a multiple of 32


@dataclass(frozen=True)
class Terms:
    """What the facts of a launch are made of.

    Attributes:
        blocks: Blocks, up to a constant factor.
        vthreads: Virtual threads.
        threads: Threads of a block.
        staged: Elements that all threads copy to shared memory, for each copy.
        boxes: Elements of each copy's box.
        lanes: Elements of one access to device memory: of each copy, and of results where they are another.
        lane_bytes: Bytes of such an element.
        kept: What a thread keeps in registers: accumulators, and fragments of operands.
        constants: What is in proportion to results: one where they are written once by each thread, those
            that a warp writes and the fragments that it loads for Tensor Cores.
    """

    blocks: FloatArray
    vthreads: FloatArray
    threads: FloatArray
    staged: list[FloatArray]
    boxes: list[FloatArray]
    lanes: list[FloatArray]
    lane_bytes: list[int]
    kept: list[FloatArray]
    constants: list[FloatArray]


@dataclass(frozen=True)
class TiledNest:
    """A block all of whose loops a sketch tiles.

    Attributes:
        spatial: Names of the tiles of its spatial loops.
        reduced: Names of the tiles of the others.
        fetches: Names of the decisions on vector widths, one for each copy.
        sides: Of the box of each copy.
        element_bytes: Bytes of the elements of each copy.
        result_bytes: Bytes of a result, which is written alone.
    """

    spatial: tuple[str, ...]
    reduced: tuple[str, ...]
    fetches: tuple[str, ...]
    sides: tuple[tuple[Side, ...], ...]
    element_bytes: tuple[int, ...]
    result_bytes: int

    def terms(self, columns: Columns) -> Terms:
        """The terms of configs."""
        spatial, reduced = _tiles(self.spatial, columns), _tiles(self.reduced, columns)
        blocks, vthreads, threads = (_level(spatial, part) for part in range(3))
        repeats = blocks * vthreads * _level(reduced, 0)
        boxes = [_box(sides, columns) for sides in self.sides]
        lanes = [_lanes(box, columns[name]) for box, name in zip(boxes, self.fetches, strict=True)]
        return Terms(
            blocks=blocks,
            vthreads=vthreads,
            threads=threads,
            staged=[repeats * _copied(box, threads * width) for box, width in zip(boxes, lanes, strict=True)],
            boxes=boxes,
            lanes=[*lanes, np.ones_like(blocks)],
            lane_bytes=[*self.element_bytes, self.result_bytes],
            kept=[vthreads * _level(spatial, 3) * _level(spatial, 4)],
            constants=[np.ones_like(blocks)],
        )


@dataclass(frozen=True)
class TensorNest:
    """A block that a sketch sees as a product of fragments of matrices.

    Attributes:
        tiles: Names of the tiles of m, n and k.
        fetches: Names of the decisions on vector widths: of the results, and of both operands.
        element_bytes: Bytes of the elements of each.
    """

    tiles: tuple[str, str, str]
    fetches: tuple[str, ...]
    element_bytes: tuple[int, ...]

    def terms(self, columns: Columns) -> Terms:
        """The terms of configs."""
        rows, width, depth = _tiles(self.tiles, columns)
        side = float(FRAGMENT_SIDE)
        blocks = _within(rows, 0, 2) * _within(width, 0, 2)
        warps = rows[:, 2] * width[:, 2]
        block_rows, block_columns = side * _within(rows, 2), side * _within(width, 2)
        block_depth = side * _within(depth, 1)
        boxes = [block_rows * block_columns, block_rows * block_depth, block_columns * block_depth]
        lanes = [_lanes(box, columns[name]) for box, name in zip(boxes, self.fetches, strict=True)]
        threads = _WARP * warps
        written, *staged = (_copied(box, threads * lane) for box, lane in zip(boxes, lanes, strict=True))
        fragments = (_within(rows, 3) + _within(width, 3)) * depth[:, 2]
        return Terms(
            blocks=blocks,
            vthreads=np.ones_like(blocks),
            threads=threads,
            staged=[blocks * depth[:, 0] * elements for elements in staged],
            boxes=[
                block_rows * _padded(block_depth),
                block_depth * _padded(block_columns),
                block_columns * _padded(block_depth),
                side * rows[:, 2] * block_columns,
            ],
            lanes=lanes,
            lane_bytes=list(self.element_bytes),
            kept=[_within(rows, 3) * _within(width, 3), fragments],
            constants=[blocks * written, blocks * warps * depth[:, 0] * depth[:, 1] * fragments],
        )


def nests_of(blocks: Sequence[Block], names: Sequence[str]) -> list[TiledNest | TensorNest]:
    """The blocks that a sketch with parameters of these names tiles, in order."""
    nests = (_tensor_nest(block, names) or _tiled_nest(block, names) for block in blocks)
    return [nest for nest in nests if nest]


def _tensor_nest(block: Block, names: Sequence[str]) -> TensorNest | None:
    tiles = tuple(f"tensor_tile.{block.name}.{loop}" for loop in "mnk")
    if not set(names).issuperset(tiles):
        return None
    fetches = tuple(name for name in names if name.startswith("cooperative_fetch."))
    if len(fetches) != 3:
        return None
    size = bytes_of(block.operand_dtype)
    return TensorNest((tiles[0], tiles[1], tiles[2]), fetches, (size, size, size))


def _tiled_nest(block: Block, names: Sequence[str]) -> TiledNest | None:
    tiles = [f"tile.{block.name}.{loop}" for loop in block.loops]
    if not tiles or not set(names).issuperset(tiles):
        return None
    fetches = _fetches_behind(tiles[-1], names)
    found = [(_fetch_of(read.source.name, fetches), read) for read in block.operands]
    staged = [(name, read) for name, read in found if name]
    return TiledNest(
        tuple(tiles[i] for i in block.spatial),
        tuple(tiles[i] for i in block.reduced),
        tuple(name for name, _ in staged),
        tuple(tuple(side_of(i.min, block.variables, tiles) for i in read.region) for _, read in staged),
        tuple(bytes_of(read.source.dtype) for _, read in staged),
        bytes_of(block.block.writes[0].source.dtype),
    )


def _fetches_behind(tile: str, names: Sequence[str]) -> list[str]:
    """The decisions on vector widths behind a tile, up to those of the next nest."""
    behind = list(names[names.index(tile) + 1 :])
    end = next((i for i, name in enumerate(behind) if name.startswith("tile.")), len(behind))
    return [name for name in behind[:end] if name.startswith("cooperative_fetch.")]


def _fetch_of(buffer: str, fetches: Sequence[str]) -> str | None:
    """The decision for the copy of a buffer, whose name has a number where another nest copies it too."""
    copy = re.compile(rf"cooperative_fetch\.{re.escape(buffer)}_shared(_\d+)?(#\d+)?")
    return next((name for name in fetches if copy.fullmatch(name)), None)


def _tiles(names: Sequence[str], columns: Columns) -> list[FloatArray]:
    return [columns[name].astype(np.float64) for name in names]


def _level(tiles: Sequence[FloatArray], part: int) -> FloatArray:
    """Product over loops of their factors at one level; 1 without loops, for each config."""
    return np.asarray(np.prod([tile[:, part] for tile in tiles], axis=0)) if tiles else np.ones(1)


def _within(tile: FloatArray, first: int, end: int | None = None) -> FloatArray:
    """Iterations of a loop from this level inwards."""
    return np.asarray(np.prod(tile[:, first:end], axis=1))


def _box(sides: Sequence[Side], columns: Columns) -> FloatArray:
    """Elements of a box."""
    return np.asarray(np.prod([side_extents(side, columns) for side in sides], axis=0), dtype=np.float64)


def _lanes(box: FloatArray, width: NDArray[Any]) -> FloatArray:
    """Elements of one access: vectors are given up where they do not divide the box."""
    return np.where(box % width == 0, width, 1).astype(np.float64)


def _copied(box: FloatArray, together: FloatArray) -> FloatArray:
    """Elements that are copied, so many at a time, those of masked threads included."""
    return np.asarray(np.ceil(box / together) * together)


def _padded(elements: FloatArray) -> FloatArray:
    """Length of a row that is padded against bank conflicts."""
    return np.asarray(np.ceil((elements - _PADDING) / _PADDED) * _PADDED + _PADDING)
