"""What a scheduled program does, read in the PTX of the kernel that TVM makes of it."""

import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.kernels._read_facts import ReadFacts
from costmodel.kernels.cuda._nvrtc import CudaCode, compile_source
from costmodel.kernels.cuda._read_ptx import PtxArgument, read_ptx
from costmodel.kernels.metaschedule._lowered import geometry_of, lower
from costmodel.records._workload import DTYPE_BYTES

_KERNEL = re.compile(r"__global__\s+void\s+(?:__launch_bounds__\([^)]*\)\s+)?(\w+)\(([^)]*)\)\s*\{")
_NAME = re.compile(r"(\w+?)(?:_ptr)?\s*$")


def read_program(module: Any, compile_module: Callable[[Any], Any], architecture: str) -> ReadFacts:
    """Read the facts of a program that launches one kernel.

    Args:
        module: Scheduled ``tvm.IRModule`` after its postprocessors, with one function ``main``.
        compile_module: Gives TVM's executable of it.
        architecture: Architecture, such as ``sm_90``.

    Raises:
        CostModelError: It launches several, or its text is not understood.
    """
    geometry = geometry_of(lower(module))
    text = str(compile_module(module).mod.imports[0].inspect_source("cuda"))
    ((name, parameters),) = _KERNEL.findall(text)
    with tempfile.TemporaryDirectory() as folder:
        code = CudaCode(text, "program.cu", name, {}, (), Path(folder))
        compiled = compile_source(code, architecture)
    return read_ptx(compiled, geometry, _arguments(module, parameters))


def _arguments(module: Any, parameters: str) -> list[PtxArgument]:
    """What a kernel takes, by the names of the program's buffers, of which the last is written."""
    buffers = [each for each in module["main"].params if hasattr(each, "shape")]
    sizes = {
        str(each.name): int(np.prod([int(extent) for extent in each.shape])) * DTYPE_BYTES[str(each.dtype)]
        for each in buffers
    }
    names = [found[1] for each in parameters.split(",") if (found := _NAME.search(each))]
    return [PtxArgument(sizes.get(name, 0), None, name == str(buffers[-1].name)) for name in names]
