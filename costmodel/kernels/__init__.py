"""Kernel sources: where the kernels of a workload come from."""
