"""Kernel sources: where the kernels of a workload come from. Importing this package loads no compiler."""

from costmodel.kernels._base import KernelSource
from costmodel.kernels._built import Built
from costmodel.kernels._cubin import kernel_resources
from costmodel.kernels._design_space import MOST_CHANGES, DesignSpace, neighbour
from costmodel.kernels._distinct import DistinctPrograms
from costmodel.kernels._launch_note import LaunchNote, Position, Scratch, Value
from costmodel.kernels._sample import sample, sample_from_starts
from costmodel.kernels._sources import SOURCES, open_sources, source_for, source_of

__all__ = [
    "MOST_CHANGES",
    "SOURCES",
    "Built",
    "DesignSpace",
    "DistinctPrograms",
    "KernelSource",
    "LaunchNote",
    "Position",
    "Scratch",
    "Value",
    "kernel_resources",
    "neighbour",
    "open_sources",
    "sample",
    "sample_from_starts",
    "source_for",
    "source_of",
]
