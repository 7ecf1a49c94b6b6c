"""Kernels with declared parameters, whatever language they are written in: formulas, valid configs, spaces.

A family says its parameters, what must hold of them, and how a config is launched; formulas are evaluated
over many configs at once and never by ``eval``.
"""

from costmodel.kernels.family._artifact import CompileError, build_artifact, write_artifact
from costmodel.kernels.family._base import Choice, Family, sized_workload
from costmodel.kernels.family._check import ConfigCheck, FamilyCheck, check_family
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._geometry import Geometry, check_launch, check_shared_bytes, launch_columns
from costmodel.kernels.family._grammar import FormulaError
from costmodel.kernels.family._module import load_module
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.family._space import FamilySpace
from costmodel.kernels.family._valid_configs import ValidConfigs

__all__ = [
    "Choice",
    "CompileError",
    "ConfigCheck",
    "Family",
    "FamilyCheck",
    "FamilySource",
    "FamilySpace",
    "Formula",
    "FormulaError",
    "Geometry",
    "ValidConfigs",
    "build_artifact",
    "check_family",
    "check_launch",
    "check_shared_bytes",
    "launch_columns",
    "load_module",
    "sized_workload",
    "write_artifact",
]
