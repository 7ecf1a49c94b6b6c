"""Tensor programs of anybody's: what their blocks compute, and what the kernels of their sketches launch."""
