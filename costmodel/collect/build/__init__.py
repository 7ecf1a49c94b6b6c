"""From candidates to kernels, in builder processes that need no GPU."""

from costmodel.collect.build._build import Built, Kind, build_kernel, last_line
from costmodel.collect.build._builders import Builders, compile_effort
from costmodel.collect.build._cubin import kernel_resources
from costmodel.collect.build._inputs import agrees, make_arguments, write_reference
from costmodel.collect.build._module_build import ModuleBuilders, ModuleSource
from costmodel.collect.build._nvrtc import precompile_headers
from costmodel.collect.build._reference import reference_output

__all__ = [
    "Builders",
    "Built",
    "Kind",
    "ModuleBuilders",
    "ModuleSource",
    "agrees",
    "build_kernel",
    "compile_effort",
    "kernel_resources",
    "last_line",
    "make_arguments",
    "precompile_headers",
    "reference_output",
    "write_reference",
]
