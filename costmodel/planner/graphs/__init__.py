"""Kernel graphs and where they come from: PyTorch's profiler, Relax modules, and a JSON of one's own."""
