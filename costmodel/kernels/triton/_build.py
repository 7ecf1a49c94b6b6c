"""From a config of a family to machine code with a note of how it is launched."""

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np

from costmodel.kernels._artifact import (
    Built,
    CompileError,
    LaunchNote,
    PassedValue,
    Position,
    Scratch,
    build_artifact,
    write_artifact,
)
from costmodel.kernels._read_facts import Reading
from costmodel.kernels.family._base import check_launch, check_shared_bytes
from costmodel.kernels.family._formula import Formula
from costmodel.kernels.family._source import find_in, load_module
from costmodel.kernels.triton._family import (
    EPILOGUE,
    OPERATOR_OUTPUT,
    OPTIONS,
    WARP_THREADS,
    TritonFamily,
)
from costmodel.kernels.triton._lower import Lowering, Specialization, make_source, target_of
from costmodel.kernels.triton._read import read_kernel
from costmodel.kernels.triton._read_cache import ReadCache
from costmodel.kernels.triton._values import Argument, Array, ReadLaunch
from costmodel.records._candidate import Candidate, Config, ConfigBatch
from costmodel.records._workload import Workload

_TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "bool": "i1",
    **{f"{sign}int{bits}": f"{sign or ''}i{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_TYPES |= {f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)}
_INT32 = 2**31
_DIVISIBLE = [["tt.divisibility", 16]]  # what Triton compiles for where a pointer or number is


@dataclass(frozen=True)
class Constant:
    """A ``tl.constexpr``.

    Attributes:
        value: Its value.
    """

    value: Any


@dataclass(frozen=True)
class Pointer:
    """A pointer.

    Attributes:
        dtype: Type of what it points to, as NumPy names it.
        to: An argument, or work memory.
    """

    dtype: str
    to: Position | Scratch

    @property
    def type(self) -> str:
        """Its type in Triton's words."""
        return f"*{_TYPES[self.dtype]}"


KernelParameter = Constant | Pointer | PassedValue


def name_type(value: PassedValue) -> str:
    """Return the type of a value in Triton's words."""
    return _TYPES[value.dtype]


def choose_options(config: Config) -> dict[str, Any]:
    """Tell what Triton's compiler is told of a config; 0 registers means no limit.

    Products and sums are fused, as by default before Triton changes its mind.
    """
    chosen = {name: config.decisions[name] for name in OPTIONS if name in config.decisions}
    return {
        "enable_fp_fusion": True,
        **{name: value for name, value in chosen.items() if not (name == "maxnreg" and value == 0)},
    }


def list_parameters(
    family: TritonFamily, workload: Workload, config: Config, dtypes: tuple[str, ...]
) -> dict[str, KernelParameter]:
    """Return each parameter of the kernel, in its order.

    As Triton does, a whole number that is 1 is compiled in.

    Args:
        family: The kernel.
        workload: What it computes.
        config: The config.
        dtypes: Types of the workload's arguments, in their order.
    """
    values = {**config.decisions, **workload.dims}
    found: dict[str, KernelParameter] = {}
    for name in family.kernel_parameters:
        if name == EPILOGUE:
            found[name] = Constant("_".join(workload.operator.epilogue))
        elif name in family.parameters:
            found[name] = Constant(config.decisions[name])
        elif name in family.constants:
            found[name] = Constant(Formula(family.constants[name]).value(values))
        elif name in family.scalars:
            found[name] = _scalar(Formula(family.scalars[name]).value(values))
        elif name in family.scratch:
            size = Formula(family.scratch[name]).whole_number(values)
            found[name] = Pointer(family.scratch_types[name], Scratch(size))
        else:
            position = _position(family, workload, name)
            found[name] = (
                Constant(None) if position is None else Pointer(dtypes[position], Position(position))
            )
    return found


def _scalar(value: float) -> KernelParameter:
    if isinstance(value, float):
        return PassedValue("float32", value)
    if value == 1:
        return Constant(1)
    return PassedValue("int32" if -_INT32 <= value < _INT32 else "int64", value)


def _position(family: TritonFamily, workload: Workload, name: str) -> int | None:
    """Tell which argument an array is; None where the operator has no such input."""
    if not family.operators:
        return family.argument_names.index(name)
    operand, inputs = family.operands[name], list(workload.operator.inputs(workload.dims))
    if operand == OPERATOR_OUTPUT:
        return len(inputs)
    return inputs.index(operand) if operand in inputs else None


def build_triton_family(family: TritonFamily, candidate: Candidate, architecture: str, folder: Path) -> Built:
    """Compile a candidate into ``folder``, see ``build_artifact``."""
    return build_artifact(candidate, folder, partial(_compile, family, candidate, architecture))


def _compile(family: TritonFamily, candidate: Candidate, architecture: str, library: Path) -> None:
    workload, config = candidate.workload, candidate.config
    geometry = family.geometry(workload, ConfigBatch.from_configs(workload, [config]).decisions, 1)
    check_launch(geometry)
    parameters = list_parameters(family, workload, config, _dtypes(family, workload))
    compiled = _compiled(family, parameters, choose_options(config), architecture)
    metadata = compiled.metadata
    check_shared_bytes(metadata.shared, architecture)
    grid = tuple(geometry.grid[0].tolist())
    note = LaunchNote(
        metadata.name,
        grid,
        (WARP_THREADS * metadata.num_warps, 1, 1),
        metadata.shared,
        parameters=_launched(parameters, compiled, int(np.prod(grid))),
    )
    write_artifact(library, compiled.asm["cubin"], note)


def _compiled(
    family: TritonFamily,
    parameters: Mapping[str, KernelParameter],
    options: Mapping[str, Any],
    architecture: str,
) -> Any:
    """Tell what Triton's compiler gives, which needs no GPU.

    Raises:
        CompileError: It refuses.
    """
    import triton

    source = make_source(family_function(family), specialise(parameters, options))
    target = target_of(architecture)
    with tempfile.TemporaryFile() as log, _messages_in(log):
        try:
            with triton.knobs.cache.scope(), tempfile.TemporaryDirectory() as cache:
                triton.knobs.cache.dir = cache
                return triton.compile(source, target=target, options=dict(options))
        except Exception as error:
            log.seek(0)
            said = [line.strip() for line in str(error).splitlines() if line.strip()] or ["no message"]
            told = f"{type(error).__name__}: {said[-1]}"
            raise CompileError(told, f"{error}\n{log.read().decode(errors='replace')}") from error


def specialise(parameters: Mapping[str, KernelParameter], options: Mapping[str, Any]) -> Specialization:
    """Return what a kernel with these parameters is compiled for."""
    return Specialization(
        signature={name: _type(parameter) for name, parameter in parameters.items()},
        constants={name: each.value for name, each in parameters.items() if isinstance(each, Constant)},
        attributes={(i,): _DIVISIBLE for i, each in enumerate(parameters.values()) if _is_divisible(each)},
        options=options,
    )


def read_triton_family(
    family: TritonFamily, candidate: Candidate, architecture: str, cache: Path | None
) -> Reading:
    """Read the facts of a candidate, see ``read_kernel``."""
    lowering, launch = prepare_reading(family, candidate, architecture)
    return read_kernel(lowering, launch, None if cache is None else ReadCache(cache))


def prepare_reading(
    family: TritonFamily, candidate: Candidate, architecture: str
) -> tuple[Lowering, ReadLaunch]:
    """Tell what is lowered of a candidate, and how it would be launched."""
    workload, config = candidate.workload, candidate.config
    geometry = family.geometry(workload, ConfigBatch.from_configs(workload, [config]).decisions, 1)
    parameters = list_parameters(family, workload, config, _dtypes(family, workload))
    sizes = family.array_bytes(workload)
    arguments = [_argument(each, sizes) for each in parameters.values() if not isinstance(each, Constant)]
    x, y, z = geometry.grid[0].tolist()
    launch = ReadLaunch(arguments, (x, y, z), int(geometry.block[0, 0]) // WARP_THREADS)
    specialization = specialise(parameters, choose_options(config))
    return Lowering(family_function(family), specialization, architecture), launch


def _argument(parameter: Pointer | PassedValue, sizes: Sequence[int]) -> Argument:
    if isinstance(parameter, PassedValue):
        return parameter.value
    to = parameter.to
    return Array(to.size_bytes if isinstance(to, Scratch) else sizes[to.position])


def family_function(family: TritonFamily) -> Any:
    """Return the ``@triton.jit`` function of a family."""
    return find_in(load_module(family.kernel), family.function, family.kernel)


def _launched(
    parameters: Mapping[str, KernelParameter], compiled: Any, programs: int
) -> tuple[PassedValue | Scratch | Position, ...]:
    """Tell what the machine code takes: what is not compiled in, then work memory of Triton's own.

    How many pointers to such memory there are depends on the version of Triton; those behind the first are
    for its profiler.
    """
    own: list[PassedValue | Scratch | Position] = []
    for each in parameters.values():
        if isinstance(each, Pointer):
            own.append(each.to)
        elif isinstance(each, PassedValue):
            own.append(each)
    entry = compiled.asm["ptx"].partition(".entry")[2].partition(")")[0]
    more = entry.count(".param") - len(own)
    scratch = Scratch(getattr(compiled.metadata, "global_scratch_size", 0) * programs)
    return (*own, *[scratch, Scratch(0), Scratch(0)][:more])


def _dtypes(family: TritonFamily, workload: Workload) -> tuple[str, ...]:
    """Return the types of the workload's arguments."""
    if family.operators:
        return (workload.dtype,) * (len(workload.operator.inputs(workload.dims)) + 1)
    return tuple(family.array_types.values())


def _type(parameter: KernelParameter) -> str:
    if isinstance(parameter, Constant):
        return "constexpr"
    return parameter.type if isinstance(parameter, Pointer) else name_type(parameter)


def _is_divisible(parameter: KernelParameter) -> bool:
    """Tell whether it is a multiple of 16: every array is allocated at one."""
    if isinstance(parameter, PassedValue):
        return parameter.dtype != "float32" and parameter.value % 16 == 0
    return isinstance(parameter, Pointer)


@contextmanager
def _messages_in(log: IO[bytes]) -> Iterator[None]:
    """What the compiler's C++ writes goes into a file: it is part of the reason, and no reader wants all."""
    sys.stderr.flush()
    kept = os.dup(2)
    os.dup2(log.fileno(), 2)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
