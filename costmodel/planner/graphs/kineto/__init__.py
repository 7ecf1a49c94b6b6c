"""Traces of PyTorch's profiler, as Kineto writes them."""

from costmodel.planner.graphs.kineto._read import read_kineto

__all__ = ["read_kineto"]
