"""How many sectors of memory one access of a warp takes.

Memory is moved by sectors of 32 bytes, whatever of a sector is asked for (NVIDIA, CUDA C++ Best Practices
Guide, "Coalesced Access to Global Memory"): threads whose neighbours read floats far apart move eight times
what they read.

A sector that the same thread asks for again in its next step counts again, though the L1 cache may have it.
Measured on 32 SMs of an H100, for as many floats: maxima of columns by threads along a column, which never
ask again, take 70 us; sums of rows by threads that walk a row each, which do, at least 68 us; either by
threads whose neighbours are on neighbouring floats, at best 7 us.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tvm import tirx

SECTOR_BYTES = 32

# A variable of an index, and how many values from 0 it has in one access.
Axis = tuple[Any, int]

_ARITHMETIC = {
    tirx.Add: np.add,
    tirx.Sub: np.subtract,
    tirx.Mul: np.multiply,
    tirx.FloorDiv: np.floor_divide,
    tirx.FloorMod: np.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
}


def moved_share(index: Any, element_bytes: int, axes: Sequence[Axis]) -> float:
    """Bytes of the sectors that one access takes over the bytes that it asks for.

    Below 1 where threads ask for the same element, 1 where neighbours ask for neighbouring ones, and 8 where
    each asks for a float in a sector of its own. 1 also where the index is more than arithmetic, as one that
    is read from another array: nothing is known of it.

    Args:
        index: Position in a flat buffer that begins with a sector.
        element_bytes: Bytes of an element.
        axes: The threads of a warp, and the lanes of each. Other variables of the index are taken as 0.
    """
    values = np.meshgrid(*(np.arange(extent) for _, extent in axes), indexing="ij")
    try:
        positions = _values(index, [(name, value) for (name, _), value in zip(axes, values, strict=True)])
    except NotImplementedError:
        return 1.0
    sectors = np.unique(positions * element_bytes // SECTOR_BYTES).size
    accesses = int(np.prod([extent for _, extent in axes]))
    return sectors * SECTOR_BYTES / (accesses * element_bytes)


def _values(index: Any, known: Sequence[tuple[Any, NDArray[Any]]]) -> NDArray[Any]:
    """What an index is for these values of its variables.

    Raises:
        NotImplementedError: It is more than arithmetic.
    """
    if isinstance(index, tirx.Var):
        return next((value for name, value in known if name.same_as(index)), np.zeros(1, dtype=int))
    if isinstance(index, tirx.IntImm):
        return np.array([int(index)])
    operation = _ARITHMETIC.get(type(index))
    if operation is None:
        raise NotImplementedError(f"An index must be arithmetic of loops and threads, but got {index}.")
    return np.asarray(operation(_values(index.a, known), _values(index.b, known)))
