"""Draws many configs of a sketch at once, as columns; nothing is lowered."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from costmodel.kernels.metaschedule._shared_memory import SharedMemory, side_extents
from costmodel.kernels.metaschedule._sketch import AxisExtent, Sketch

Columns = dict[str, NDArray[np.int64]]

_CHUNK = 1 << 16  # draws at once; what they take stays in a few tens of megabytes
_MOST_CHUNKS = 2000


def draw_columns(sketch: Sketch, size: int, rng: np.random.Generator) -> tuple[int, Columns]:
    """Random decisions of a sketch that meet its constraints, by rejection; the same may come twice.

    Fewer than ``size`` come back where 130 million draws do not give as many.

    Args:
        sketch: The sketch.
        size: How many.
        rng: Source of randomness.

    Returns:
        How many came back and, for each parameter, in order, ``(n, parts)`` or ``(n,)`` values. A sketch that
        has nothing to decide has no column; its only config comes back as often as asked for.
    """
    kept: list[Columns] = []
    missing = size
    for _ in range(_MOST_CHUNKS):
        columns = {parameter.name: parameter.draw(_CHUNK, rng) for parameter in sketch.parameters}
        rows = np.flatnonzero(_meets_all(sketch, columns))[:missing]
        kept.append({name: values[rows] for name, values in columns.items()})
        missing -= len(rows)
        if not missing:
            break
    return size - missing, {name: np.concatenate([part[name] for part in kept]) for name in kept[0]}


def _meets_all(sketch: Sketch, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    """Whether each row meets the sketch's constraints, as ``Sketch.worth_lowering`` tells of one config."""
    meets = np.ones(_CHUNK, dtype=bool)
    for bound in sketch.constraints:
        meets &= _fits(bound, columns) if isinstance(bound, SharedMemory) else _is_within(bound, columns)
    return meets


def _is_within(bound: AxisExtent, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    extent = np.prod([columns[name][:, part] for name, part in bound.factors], axis=0)
    return np.asarray((bound.low <= extent) & (extent <= bound.high))


def _fits(bound: SharedMemory, columns: Mapping[str, NDArray[np.int64]]) -> NDArray[np.bool_]:
    needed = sum(
        size * np.prod([side_extents(side, columns) for side in sides], axis=0) for size, sides in bound.boxes
    )
    return np.asarray(needed * bound.copies <= bound.limit_bytes)
