"""From candidates to kernels, in builder processes that need no GPU.

What depends on TVM stands in ``_build``, ``_module_build`` and ``_nvrtc``; ``Builders`` takes it as
``BuildJobs``.
"""

from costmodel.collector.build._build import Built, build_kernel, check_installed
from costmodel.collector.build._builders import Builders, BuildJobs, compile_effort, start_build_workers
from costmodel.collector.build._cubin import kernel_resources
from costmodel.collector.build._module_build import ModuleBuilders, ModuleSource
from costmodel.collector.build._nvrtc import nvrtc_version, precompile_headers

__all__ = [
    "BuildJobs",
    "Builders",
    "Built",
    "ModuleBuilders",
    "ModuleSource",
    "build_kernel",
    "check_installed",
    "compile_effort",
    "kernel_resources",
    "nvrtc_version",
    "precompile_headers",
    "start_build_workers",
]
