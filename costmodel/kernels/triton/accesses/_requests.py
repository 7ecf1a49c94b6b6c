"""What one request of a warp touches: sectors and lines of memory, and banks of shared memory.

All lanes of a warp access together. Which element each has is what the layout says, and where it is what the
kernel computes; the first warp's request for the first and for the middle of a tile stand for all.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.triton._ir import Type
from costmodel.kernels.triton._layouts import WARP_THREADS, Layouts, list_in
from costmodel.kernels.triton._values import Value

_SECTOR_BYTES, _LINE_BYTES = 32, 128
_WORD_BYTES, _BANKS = 4, 32
_WIDEST_BYTES = 16


@dataclass(frozen=True)
class Touched:
    """What one request of a warp touches, mean over those that were looked at.

    Attributes:
        sectors: Sectors of 32 bytes.
        lines: Lines of 128 bytes.
    """

    sectors: float
    lines: float


def touched(pointer: Value, mask: Value | None, tile: Type, width: float, layouts: Layouts) -> Touched:
    """Return what a request touches in memory.

    Args:
        pointer: Addresses of the tile, as offsets in elements.
        mask: Which elements are accessed; None for all.
        tile: Type of what is accessed.
        width: Bytes that each lane accesses at once.
        layouts: How tiles are spread over lanes.
    """
    places = lane_places(tile, layouts)
    if not tile.shape or places is None or pointer.number is None:
        bytes_ = width * (WARP_THREADS if tile.shape else 1)
        return Touched(max(1.0, bytes_ / _SECTOR_BYTES), max(1.0, bytes_ / _LINE_BYTES))
    offsets = np.broadcast_to(np.asarray(pointer.number), tile.shape)
    chosen = None
    if mask is not None and mask.number is not None and not mask.is_guess:
        chosen = np.broadcast_to(np.asarray(mask.number), tile.shape)
    found = []
    for start in _starts(tile.shape):
        at = tuple(((places + start) % tile.shape).T)
        first = offsets[at].astype(np.int64) * tile.bits // 8
        if chosen is not None and chosen[at].any():
            first = first[chosen[at].astype(bool)]
        found.append((_distinct(first, width, _SECTOR_BYTES), _distinct(first, width, _LINE_BYTES)))
    sectors, lines = np.mean(found, axis=0)
    return Touched(float(sectors), float(lines))


def bank_turns(tile: Type, memory: Type, layouts: Layouts, most_bytes: float = _WIDEST_BYTES) -> float:
    """Return the turns in which the banks of shared memory serve what a warp reads or writes of a tile.

    Args:
        tile: Type of the tile, with its layout in registers.
        memory: The same in shared memory.
        layouts: Both layouts.
        most_bytes: Bytes that a lane accesses at once, at most.
    """
    elements = layouts.of_thread(tile)
    at_best = max(1.0, elements * tile.bits / 8 / _WORD_BYTES)
    text = layouts.texts.get(memory.layout, "")
    places = lane_places(tile, layouts)
    if places is None or not text.startswith("ttg.swizzled_shared") or len(memory.shape) != len(tile.shape):
        return at_best
    order, element = list_in(text, "order"), tile.bits / 8
    fastest = layouts.fastest(tile)
    together = 1.0
    if fastest == order[0]:
        swizzled = _number(text, "vec") if _number(text, "maxPhase") > 1 else memory.shape[fastest]
        together = max(1.0, min(layouts.vector(tile), swizzled, most_bytes / element))
    first = _shared_bytes(text, tuple(order), memory.shape, places % memory.shape, element)
    words = first[:, None] // _WORD_BYTES + np.arange(max(1, int(together * element) // _WORD_BYTES))
    turns = np.bincount(np.unique(words) % _BANKS).max()
    return float(turns) * max(1.0, elements / together)


def lane_places(tile: Type, layouts: Layouts) -> NDArray[np.int64] | None:
    """``(32, axes)`` where the first element of each lane of the first warp is; None if that is not told."""
    text, cuts, operand = layouts.text_of(tile)
    if operand is not None:
        return None
    places = _places(text)
    if places is None:
        return None
    for cut in cuts:
        places = np.delete(places, cut, axis=1) if cut < places.shape[1] else places
    return places if places.shape[1] == len(tile.shape) else None


@cache
def _places(text: str) -> NDArray[np.int64] | None:
    if text.startswith("ttg.blocked"):
        sizes, lanes, order = (list_in(text, name) for name in ("sizePerThread", "threadsPerWarp", "order"))
        places, rest = np.zeros((WARP_THREADS, len(sizes)), np.int64), np.arange(WARP_THREADS)
        for axis in order:
            places[:, axis] = rest % lanes[axis] * sizes[axis]
            rest = rest // lanes[axis]
        return places
    if text.startswith("ttg.linear"):
        match = re.search(r"lane = \[((?:\[[^\]]*\],? ?)*)\]", text)
        steps = [
            list(map(int, each.split(",")))
            for each in re.findall(r"\[([\d, ]+)\]", match[1] if match else "")
        ]
        return _combined(steps)
    if "mma" in text.partition("<")[0]:
        return _combined([[0, 2], [0, 4], [1, 0], [2, 0], [4, 0]])
    return None


def _combined(steps: Sequence[Sequence[int]]) -> NDArray[np.int64] | None:
    """Places of lanes by the step of each bit of their number."""
    if not steps:
        return None
    bits = np.arange(WARP_THREADS)[:, None] >> np.arange(len(steps)) & 1
    found = np.bitwise_xor.reduce(bits[:, :, None] * np.array(steps, np.int64), axis=1)
    return np.asarray(found)


def _starts(shape: tuple[int, ...]) -> list[NDArray[np.int64]]:
    """The first place of a tile, and the middle along its longest axis."""
    middle = np.zeros(len(shape), np.int64)
    longest = int(np.argmax(shape))
    middle[longest] = shape[longest] // 2
    return [np.zeros(len(shape), np.int64), middle] if shape[longest] > WARP_THREADS else [middle * 0]


def _distinct(first: NDArray[np.int64], width: float, size: int) -> int:
    """Pieces of a size that accesses of a width touch."""
    ends = np.concatenate([first, first + max(0, int(width) - 1)])
    return len(np.unique(ends // size))


def _shared_bytes(
    text: str, order: tuple[int, ...], shape: tuple[int, ...], places: NDArray[np.int64], element: float
) -> NDArray[np.int64]:
    """Addresses in shared memory, where pieces of a row change places by the row."""
    vector, column = _number(text, "vec"), places[:, order[0]]
    row = places[:, order[1]] if len(order) > 1 else np.zeros_like(column)
    phase = row // _number(text, "perPhase") % _number(text, "maxPhase")
    column = ((column // vector) ^ phase) * vector + column % vector
    found = (row * shape[order[0]] + column) * element
    return np.asarray(found.astype(np.int64))


def _number(text: str, name: str) -> int:
    match = re.search(rf"\b{name} = (\d+)", text)
    return int(match[1]) if match else 1
