"""The text of a kernel in Triton's two dialects, without a GPU and without machine code."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from costmodel.kernels.triton._layouts import WARP_THREADS
from costmodel.records._platform import check_compute_capability

# Told, as Triton would warn of its choice, which changes nothing that is read.
UNREAD_OPTIONS = {"enable_fp_fusion": True}
_STAGES = ("ttir", "ttgir")


@dataclass(frozen=True)
class Specialization:
    """What Triton compiles a kernel for.

    Attributes:
        signature: Type of each parameter by name, in Triton's words; ``constexpr`` for what is compiled in.
        constants: Values that are compiled in, by name or by place.
        attributes: What is known of other parameters, by place.
        options: Options of the compiler.
    """

    signature: Mapping[str, str]
    constants: Mapping[Any, Any]
    attributes: Mapping[tuple[int, ...], Any]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Lowering:
    """What is lowered, for what, and how far.

    Attributes:
        function: The ``@triton.jit`` function.
        specialization: What it is compiled for.
        architecture: Architecture, such as ``sm_90``.
        with_layouts: Whether the second dialect is wanted, which takes nearly half of the time.
    """

    function: Any
    specialization: Specialization
    architecture: str
    with_layouts: bool = True

    @property
    def first_dialect(self) -> "Lowering":
        """The same, no further than the first dialect."""
        return replace(self, with_layouts=False)

    @property
    def source(self) -> Any:
        """What Triton calls a source."""
        return make_source(self.function, self.specialization)


class LoweredTexts(msgspec.Struct, frozen=True):
    """A kernel in Triton's dialects.

    Attributes:
        ttir: Text in the first, where tiles have no layout.
        ttgir: Text in the second, where they have; empty if it was not asked for.
        shared_bytes: Shared memory of a program; -1 if it is not known.
    """

    ttir: str
    ttgir: str = ""
    shared_bytes: int = -1


def make_source(function: Any, specialization: Specialization) -> Any:
    """Return what Triton calls a source: a kernel and what it is compiled for."""
    from triton.compiler import ASTSource

    return ASTSource(
        fn=function,
        signature=dict(specialization.signature),
        constexprs=dict(specialization.constants),
        attrs=dict(specialization.attributes),
    )


def lower_kernel(lowering: Lowering) -> LoweredTexts:
    """Lower a kernel as far as facts are read of it."""
    return lower_source(
        lowering.source,
        lowering.specialization.options,
        lowering.architecture,
        with_layouts=lowering.with_layouts,
    )


@dataclass(frozen=True)
class BegunLowering:
    """What Triton's front end makes of a kernel, before any pass.

    Attributes:
        module: The module.
        backend: Triton's backend of the target.
        options: Options of the compiler, as the backend has them.
    """

    module: Any
    backend: Any
    options: Any


def begin_lowering(source: Any, options: Mapping[str, Any], architecture: str) -> BegunLowering:
    """Run Triton's front end on what it calls a source."""
    from triton._C.libtriton import ir
    from triton.compiler.compiler import make_backend

    backend = make_backend(target_of(architecture))
    parsed = backend.parse_options({**UNREAD_OPTIONS, **options, **source.parse_options()})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    codegen, modules = backend.get_codegen_implementation(parsed), backend.get_module_map()
    module = source.make_ir(backend.target, parsed, codegen, modules, context)
    return BegunLowering(module, backend, parsed)


def lower_source(
    source: Any, options: Mapping[str, Any], architecture: str, *, with_layouts: bool = True
) -> LoweredTexts:
    """Lower what Triton calls a source.

    Args:
        source: The source.
        options: Options of the compiler.
        architecture: Architecture, such as ``sm_90``.
        with_layouts: See ``Lowering``.
    """
    begun = begin_lowering(source, options, architecture)
    module, stages = begun.module, dict[str, Any]()
    metadata = {"target": begun.backend.target, **begun.options.__dict__}
    begun.backend.add_stages(stages, begun.options, source.language)
    texts = {}
    for name in _STAGES if with_layouts else _STAGES[:1]:
        module = stages[name](module, metadata)
        texts[name] = module.str_nodebug()
    shared = _allocate_shared(module, begun.backend, begun.options) if with_layouts else -1
    return LoweredTexts(texts["ttir"], texts.get("ttgir", ""), shared)


def target_of(architecture: str) -> Any:
    """Return what Triton calls a target, of an architecture such as ``sm_90``."""
    from triton.backends.compiler import GPUTarget

    return GPUTarget("cuda", check_compute_capability(architecture), WARP_THREADS)


def find_ptx_version() -> None:
    """Let Triton ask NVIDIA's assembler for its version, which it does once a process."""
    from triton.backends.nvidia.compiler import get_ptxas

    for architecture in (80, 90):
        get_ptxas(architecture)


def _allocate_shared(module: Any, backend: Any, options: Any) -> int:
    """Return the shared memory that Triton's next step would allocate; -1 where it cannot be asked.

    The passes before machine code that lead to it, as ``make_llir`` of Triton 3.6 to 3.9 begins.
    """
    try:
        from triton._C.libtriton import ir, nvidia, passes
        from triton.backends.nvidia.compiler import get_ptx_version_from_options

        capability = backend._parse_arch(options.arch)
        version = get_ptx_version_from_options(options, backend.target.arch)
        manager = ir.pass_manager(module.context)
        passes.convert.add_scf_to_cf(manager)
        nvidia.passes.ttgpuir.add_allocate_shared_memory_nv(manager, capability, version)
        manager.run(module, "allocate_shared")
        shared = module.get_int_attr("ttg.shared")
    except Exception:  # noqa: BLE001 (a private way in, which any version may close)
        return -1
    return -1 if shared is None else int(shared)
