"""Traces of PyTorch's profiler, as Kineto writes them."""
