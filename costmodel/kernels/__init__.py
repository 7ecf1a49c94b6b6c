"""Kernel sources: where the kernels of a workload come from. Importing this loads no compiler."""

from costmodel.kernels._base import KernelSource
from costmodel.kernels._built import Built
from costmodel.kernels._cubin import kernel_resources
from costmodel.kernels._design_space import MOST_CHANGES, DesignSpace, neighbour
from costmodel.kernels._sources import source_for, source_of

__all__ = [
    "MOST_CHANGES",
    "Built",
    "DesignSpace",
    "KernelSource",
    "kernel_resources",
    "neighbour",
    "source_for",
    "source_of",
]
