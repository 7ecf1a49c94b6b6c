"""Inputs of an operator, the same in every process, and whether an output is right."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.records._workload import Workload

_SEED = 20260
_WEIGHTS = frozenset({"B", "weight"})  # inputs whose products are summed up
# A sum of K products that is rounded to float16 at each step is off by 1.5e-4 sqrt(K) of its norm: 1.9e-2 at
# K = 16384 (simulated; 5e-3 on Tensor Cores, which round every 16th step). A kernel that forgets one tile
# of 16 steps is off by 4 / sqrt(K): 3.1e-2 at that K. In float32 rounding stays under 1e-5.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2.5e-2}
_BLOCK = 1 << 17  # numbers that are compared at a time: two blocks and their difference fit into an L2 cache


def make_arguments(workload: Workload) -> list[NDArray[Any]]:
    """Random normal inputs, then an output full of NaN, so that an element that nobody writes is seen.

    Weights are divided by the square root of the reduction's length: results are of order 1, in the range of
    float16 and where activation functions bend.
    """
    rng = np.random.default_rng(_SEED)
    operator, dims = workload.operator, workload.dims
    shrink = operator.reduction(dims) ** -0.5
    arrays = []
    for name, shape in operator.inputs(dims).items():
        values = rng.standard_normal(shape) * (shrink if name in _WEIGHTS else 1.0)
        arrays.append(values.astype(workload.dtype))
    return [*arrays, np.full(operator.output(dims), np.nan, workload.dtype)]


def tolerance_of(dtype: str) -> float:
    """Largest ``||output - reference|| / ||reference||`` that rounding explains; 0 for whole numbers."""
    return _TOLERANCE.get(dtype, 0.0)


def agrees(output: NDArray[Any], reference: NDArray[Any], tolerance: float | None = None) -> bool:
    """Whether ``||output - reference|| / ||reference||`` is within a tolerance; integers must be equal.

    The tolerance is that of rounding to the output's dtype unless given. NaN and another size never are
    within it. Every kernel is checked, so it must take little time: squares are summed in float32, which is
    off by far less and takes a fifth of float64's time, and in blocks that stay in a cache.
    """
    if output.dtype.kind != "f":
        return bool(np.array_equal(output, reference))
    tolerance = tolerance_of(str(output.dtype)) if tolerance is None else tolerance
    if output.size != reference.size:
        return False
    squares = _squares(output.ravel(), reference.ravel())
    return bool(squares[0] <= tolerance**2 * squares[1])


def _squares(output: NDArray[Any], reference: NDArray[Any]) -> tuple[float, float]:
    """``||output - reference||²`` and ``||reference||²`` of two arrays ``(n,)``."""
    of_difference = of_reference = 0.0
    for first in range(0, reference.size, _BLOCK):
        block = slice(first, first + _BLOCK)
        expected = reference[block].astype(np.float32, copy=False)
        difference = output[block].astype(np.float32, copy=False) - expected
        of_difference += float(np.vdot(difference, difference))
        of_reference += float(np.vdot(expected, expected))
    return of_difference, of_reference
