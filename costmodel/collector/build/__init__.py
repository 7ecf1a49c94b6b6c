"""From candidates to kernels, in builder processes that need no GPU."""

from costmodel.collector.build._build import reference_name, write_reference
from costmodel.collector.build._builders import Builders, compile_effort, start_build_workers
from costmodel.collector.build._module_build import ModuleBuilders, ModuleSource
from costmodel.kernels import Built

__all__ = [
    "Builders",
    "Built",
    "ModuleBuilders",
    "ModuleSource",
    "compile_effort",
    "reference_name",
    "start_build_workers",
    "write_reference",
]
