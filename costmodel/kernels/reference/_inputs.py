"""Inputs of an operator, the same in every process, and whether an output is right."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.records import Workload

_SEED = 20260
_WEIGHTS = frozenset({"B", "weight"})  # inputs whose products are summed up
# A sum of K products that is rounded to float16 at each step is off by 1.5e-4 sqrt(K) of its norm: 1.9e-2 at
# K = 16384 (simulated; 5e-3 on Tensor Cores, which round every 16th step). A kernel that forgets one tile
# of 16 steps is off by 4 / sqrt(K): 3.1e-2 at that K. In float32 rounding stays under 1e-5.
_TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 2.5e-2}


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

    The tolerance is that of rounding to the output's dtype unless given. NaN never is within it.
    Squares are summed in float32, which is off by far less: every kernel is checked, and float64 takes five
    times as long.
    """
    if output.dtype.kind != "f":
        return bool(np.array_equal(output, reference))
    tolerance = tolerance_of(str(output.dtype)) if tolerance is None else tolerance
    expected = reference.astype(np.float32, copy=False)
    difference = (output.astype(np.float32) - expected).ravel()
    limit = tolerance**2 * np.vdot(expected, expected)
    return bool(np.vdot(difference, difference) <= limit)
