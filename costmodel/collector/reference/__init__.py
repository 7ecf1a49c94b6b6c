"""Inputs of a workload, its right output by NumPy, and whether a kernel's output agrees with it.

Independent of where kernels come from: a kernel of any source computes a workload.
"""

from costmodel.collector.reference._inputs import agrees, make_arguments, write_reference
from costmodel.collector.reference._reference import reference_output

__all__ = ["agrees", "make_arguments", "reference_output", "write_reference"]
