"""Inputs and reference outputs of a workload, the same in every process."""

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.collector.reference._reference import reference_output
from costmodel.files import write_whole
from costmodel.records import Workload

_SEED = 20260
_WEIGHTS = frozenset({"B", "weight"})  # inputs whose products are summed up
# A sum of K products that is rounded to float16 at each step is off by 1.5e-4 sqrt(K) of its norm: 1.9e-2 at
# K = 16384 (simulated; 5e-3 on Tensor Cores, which round every 16th step). A kernel that forgets one tile
# of 16 steps is off by 4 / sqrt(K): 3.1e-2 at that K. In float32 rounding stays under 1e-5.
_TOLERANCE = {"float32": 1e-4, "float16": 2.5e-2}


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


def write_reference(workload: Workload, folder: Path) -> Path:
    """Compute the output on the CPU, once, and keep it in ``folder``."""
    path = folder / f"{workload.name}.npy"
    if not path.exists():
        *inputs, _ = make_arguments(workload)
        buffer = io.BytesIO()
        np.save(buffer, reference_output(workload, inputs).astype(np.float32), allow_pickle=False)
        write_whole(path, buffer.getvalue())
    return path


def agrees(output: NDArray[Any], reference: NDArray[Any]) -> bool:
    """Whether ``||output - reference|| / ||reference||`` is within rounding of the output's dtype.

    NaN never is. Squares are summed in float32, which is off by far less than the tolerance: every kernel is
    checked, and float64 takes five times as long.
    """
    difference = (output.astype(np.float32) - reference).ravel()
    limit = _TOLERANCE[str(output.dtype)] ** 2 * np.vdot(reference, reference)
    return bool(np.vdot(difference, difference) <= limit)
