"""Triton kernels with declared parameters as a source of kernels; importing it loads no Triton.

A family is a file of Python that tells a ``@triton.jit`` function's parameters, arrays and launches
(``TritonFamily``); where it is kept apart from the kernel, choosing among configs needs no Triton at all.
Triton's compiler, which needs no GPU, makes machine code of a config, and the CUDA driver launches it.
"""

from costmodel.kernels.triton._family import TritonFamily
from costmodel.kernels.triton._interpreter import interpret
from costmodel.kernels.triton._place import families_at, is_family_place
from costmodel.kernels.triton._source import TritonSource

__all__ = ["TritonFamily", "TritonSource", "families_at", "interpret", "is_family_place"]
