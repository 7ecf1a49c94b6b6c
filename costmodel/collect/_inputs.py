"""Inputs and reference outputs of a workload, the same in every process."""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.records import Workload

_SEED = 20260
# Rounding of float32 sums in another order stays under 1e-5 of the output's scale, of float16 under 1e-2.
_TOLERANCE = {"float32": 1e-4, "float16": 2e-2}


def make_arguments(workload: Workload) -> list[NDArray[Any]]:
    """Random normal inputs, then an output full of NaN, so that an element that nobody writes is seen."""
    from costmodel.spaces._workload_ir import argument_shapes  # loads TVM

    rng = np.random.default_rng(_SEED)
    *inputs, output = argument_shapes(workload)
    arrays = [rng.standard_normal(shape).astype(workload.dtype) for shape in inputs]
    return [*arrays, np.full(output, np.nan, workload.dtype)]


def write_reference(workload: Workload, folder: Path) -> Path:
    """Compute the workload without any schedule on the CPU, once, and keep the output in ``folder``."""
    import tvm  # loaded where a worker needs it

    from costmodel.spaces._workload_ir import workload_module

    path = folder / f"{workload.name}.npy"
    if not path.exists():
        program = tvm.compile(workload_module(workload), target=tvm.target.Target({"kind": "llvm"}))
        arguments = [tvm.runtime.tensor(array) for array in make_arguments(workload)]
        program(*arguments)
        partial = path.with_suffix(".partial.npy")
        np.save(partial, arguments[-1].numpy(), allow_pickle=False)
        partial.replace(path)
    return path


def agrees(output: NDArray[Any], reference: NDArray[Any]) -> bool:
    """Whether ``||output - reference|| / ||reference||`` is within rounding; NaN never is."""
    difference = np.linalg.norm(output.astype(np.float64) - reference)
    return bool(difference <= _TOLERANCE[str(reference.dtype)] * np.linalg.norm(reference.astype(np.float64)))
