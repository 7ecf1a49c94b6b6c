"""Data that kernels depend on: pruned weights, spiking networks, and lookups by a distribution.

The best kernel of these workloads depends on what is in their arrays. Here are the facts of such data, arrays
that have these facts, and what should come of them, in NumPy; kernels are in ``costmodel.kernels``.
"""
