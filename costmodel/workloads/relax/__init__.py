"""From Relax modules to kernels, and from kernels to workloads. Loads TVM, as all else here does not."""

from costmodel.workloads.relax._calls import module_calls
from costmodel.workloads.relax._fuse import fuse, kernel_calls
from costmodel.workloads.relax._recognise import (
    possible_workloads,
    recognise,
    relax_kernels,
    without_annotations,
)

__all__ = [
    "fuse",
    "kernel_calls",
    "module_calls",
    "possible_workloads",
    "recognise",
    "relax_kernels",
    "without_annotations",
]
