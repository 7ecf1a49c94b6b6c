from ._base import KernelSource as KernelSource
from .cuda._family import CudaFamily as CudaFamily
from .cuda._source import CudaSource as CudaSource
from .metaschedule._source import open_space as open_space
from .metaschedule._source import sample_candidates as sample_candidates
from .metaschedule._tvm_start import make_target as make_target
from .triton._family import TritonFamily as TritonFamily
