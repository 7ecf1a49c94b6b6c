"""Tensor programs of anybody's: what their blocks compute, and what the kernels of their sketches launch.

Importing this loads no TVM.
"""

from costmodel.kernels.metaschedule.programs._file import is_program_place, load_program, read_module
from costmodel.kernels.metaschedule.programs._source import ProgramSource

__all__ = ["ProgramSource", "is_program_place", "load_program", "read_module"]
