"""TVM's MetaSchedule as a source of kernels: design spaces as named discrete decisions.

Importing this loads no TVM. Of its modules only ``_parameters`` (tiles, categories, how they are drawn and
changed) and ``_draw`` say nothing of MetaSchedule; sketches, traces, targets and lowered
programs are its. Other packages see configs, candidates and what these launch.
"""

from costmodel.kernels._nvrtc_version import nvrtc_version
from costmodel.kernels.metaschedule._build import compile_module
from costmodel.kernels.metaschedule._database_json import database_record, database_workload
from costmodel.kernels.metaschedule._headers import precompile_headers
from costmodel.kernels.metaschedule._parameters import Categorical, Parameter, Tile, divisors, factorizations
from costmodel.kernels.metaschedule._sample import lowered_launches, open_space, sample_candidates
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.kernels.metaschedule._target import make_target
from costmodel.kernels.metaschedule._tensor_intrin import (
    register_tensor_intrinsics,
    without_tensor_intrinsics,
)
from costmodel.kernels.metaschedule._traced_program import TracedProgram
from costmodel.kernels.metaschedule._without_torch import import_tvm_for
from costmodel.kernels.metaschedule.programs import (
    ProgramSource,
    is_program_place,
    load_program,
    read_module,
)
from costmodel.records import TargetKind

__all__ = [
    "Categorical",
    "MetaSchedule",
    "Parameter",
    "ProgramSource",
    "TargetKind",
    "Tile",
    "TracedProgram",
    "compile_module",
    "database_record",
    "database_workload",
    "divisors",
    "factorizations",
    "import_tvm_for",
    "is_program_place",
    "load_program",
    "lowered_launches",
    "make_target",
    "nvrtc_version",
    "open_space",
    "precompile_headers",
    "read_module",
    "register_tensor_intrinsics",
    "sample_candidates",
    "without_tensor_intrinsics",
]
