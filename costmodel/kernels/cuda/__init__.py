"""CUDA kernels with declared parameters, described in T1, as a source of kernels; importing it loads no CUDA.

A family is a folder with a kernel (``.cu``), its description (``.json``), and if one likes what its result
should be (``reference.py``). Formulas of a description are evaluated by ``_formula``, over many configs at
once and never by ``eval``; NVRTC compiles a config, which needs no GPU.
"""

from costmodel.kernels.cuda._build import LaunchNote
from costmodel.kernels.cuda._check import ConfigCheck, FamilyCheck, check_family
from costmodel.kernels.cuda._description import Description, read_description
from costmodel.kernels.cuda._family import CudaFamily
from costmodel.kernels.cuda._formula import Formula
from costmodel.kernels.cuda._grammar import FormulaError
from costmodel.kernels.cuda._source import CudaSource
from costmodel.kernels.cuda._space import FamilySpace
from costmodel.kernels.cuda._valid_configs import ValidConfigs

__all__ = [
    "ConfigCheck",
    "CudaFamily",
    "CudaSource",
    "Description",
    "FamilyCheck",
    "FamilySpace",
    "Formula",
    "FormulaError",
    "LaunchNote",
    "ValidConfigs",
    "check_family",
    "read_description",
]
