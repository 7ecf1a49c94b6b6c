"""Inputs of an operator, its right output by NumPy, and whether a kernel's output agrees with it.

Independent of where kernels come from: a kernel of any source computes a workload.
"""

from costmodel.kernels.reference._inputs import agrees, make_arguments, tolerance_of
from costmodel.kernels.reference._reference import reference_output

__all__ = ["agrees", "make_arguments", "reference_output", "tolerance_of"]
