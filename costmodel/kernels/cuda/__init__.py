"""CUDA kernels with declared parameters, described in T1, as a source of kernels; importing it loads no CUDA.

A family is a folder with a kernel (``.cu``), its description (``.json``), and if one likes what its result
should be (``reference.py``), what its data are like where kernels depend on them (``data.py``), and what a
user of PyTorch would call instead (``library.py``). NVRTC compiles a config, which needs no GPU.
"""

from costmodel.kernels.cuda._description import Description, read_description
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._source import CudaSource

__all__ = [
    "CudaFamily",
    "CudaSource",
    "Description",
    "read_description",
]
