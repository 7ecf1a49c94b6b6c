"""Kernel sources: where the kernels of a workload come from."""

from costmodel.kernels._design_space import MOST_CHANGES, DesignSpace, neighbour

__all__ = ["MOST_CHANGES", "DesignSpace", "neighbour"]
