"""Reads what configs of a user's own kernel do, for the arguments of a launch, without running anything.

Triton's own binder tells what a launch would compile, as far as it can be had; else types and what divides
sizes are told by the same rules. Its front end works here, on objects of this process; the passes behind it,
which may crash, and the counting in ``_read_worker``. A config of which anything fails gets a note.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from triton.compiler.compiler import make_backend
from triton.runtime import jit
from triton.runtime.jit import JITFunction

from costmodel.files import cache_folder
from costmodel.integrations.triton._read_worker import ReadJob, read_apart
from costmodel.kernels._read_facts import Reading, describe_failure
from costmodel.kernels.triton._lower import (
    UNREAD_OPTIONS,
    Lowering,
    Specialization,
    begin_lowering,
    target_of,
)
from costmodel.kernels.triton._read import read_kernel
from costmodel.kernels.triton._read_cache import ReadCache, ReadEntry, ReadLaunch
from costmodel.kernels.triton._values import Argument, Array

FOLDER = "read"
_DEFAULT_WARPS = 4
_TYPES = {
    "bool": "i1",
    "bfloat16": "bf16",
    **{f"float{bits}": f"fp{bits}" for bits in (16, 32, 64)},
    **{f"int{bits}": f"i{bits}" for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": f"u{bits}" for bits in (8, 16, 32, 64)},
}
_DIVISIBLE = 16


@dataclass(frozen=True)
class ReadRequest:
    """What is read: a kernel, and the launch that asks for it.

    Attributes:
        function: The ``@triton.jit`` function.
        arguments: Its arguments by name, without those of configs.
        grid: Grid of the launch, or a function of all arguments.
        architecture: Architecture of the device, such as ``sm_90``.
        rules: Functions of all arguments that tell further ones, as ``triton.heuristics`` has them.
    """

    function: JITFunction[Any]
    arguments: Mapping[str, Any]
    grid: Any
    architecture: str
    rules: Mapping[str, Callable[[dict[str, Any]], Any]] = field(default_factory=dict)

    @cached_property
    def backend(self) -> Any:
        """Triton's backend of the architecture."""
        return make_backend(target_of(self.architecture))

    @cached_property
    def binder(self) -> Any:
        """What Triton binds the arguments of a launch with."""
        return jit.create_function_from_signature(self.function.signature, self.function.params, self.backend)


def read_configs(
    request: ReadRequest,
    configs: Sequence[Any],
    *,
    workers: int = 0,
    timeout_s: float = 10.0,
    cache: Path | None = None,
) -> list[Reading]:
    """Return what each config does; a note where it cannot be read. Needs no GPU.

    Args:
        request: Kernel and launch.
        configs: Each a ``triton.Config``.
        workers: Processes that lower side by side; 0 lowers in this one, which a crash of the compiler ends.
        timeout_s: Seconds that all of them have; no limit in this process.
        cache: Folder of what was lowered before. Default: ``read`` in the cache of this user.
    """
    kept = ReadCache(cache_folder(FOLDER) if cache is None else cache)
    found: dict[int, Reading] = {}
    jobs: dict[int, ReadJob] = {}
    for i, config in enumerate(configs):
        try:
            lowering, launch = bind_config(request, config)
            entry = kept.entry(lowering, launch)
            if workers and not entry.is_lowered:
                jobs[i] = _job(lowering, launch, entry)
            else:
                found[i] = read_kernel(lowering, launch, kept)
        except Exception as error:  # noqa: BLE001 (of Triton or of a user's hook: the config stays unread)
            found[i] = Reading(note=describe_failure(error))
    found |= dict(zip(jobs, read_apart(list(jobs.values()), workers, timeout_s), strict=True))
    return [found[i] for i in range(len(configs))]


def bind_config(request: ReadRequest, config: Any) -> tuple[Lowering, ReadLaunch]:
    """Tell what a config compiles for the arguments of a launch, and how it is launched."""
    function, chosen = request.function, config.all_kwargs()
    told = {**request.arguments, **chosen}
    if config.pre_hook is not None:  # it may change what is compiled, such as the block of a descriptor
        config.pre_hook(told)
    for name, rule in request.rules.items():
        told[name] = rule(told)
    named = {name: value for name, value in told.items() if name in function.arg_names}
    options = {name: value for name, value in told.items() if name not in function.arg_names}
    options = UNREAD_OPTIONS | {name: value for name, value in options.items() if value is not None}
    try:
        specialization, arguments = _bound(request, named, options)
    except Exception:  # noqa: BLE001 (private names of Triton, which any version may change)
        specialization, arguments = _by_rule(function, named, options)
    grid = request.grid(named) if callable(request.grid) else request.grid
    x, y, z = (*map(int, grid), 1, 1)[:3]
    launch = ReadLaunch(arguments, (x, y, z), int(options.get("num_warps", _DEFAULT_WARPS)))
    return Lowering(function, specialization, request.architecture), launch


def _bound(
    request: ReadRequest, named: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Specialization, list[Argument]]:
    """Ask Triton's binder, as ``JITFunction.run`` does."""
    values, specialized, rest = request.binder(**named, **options)
    _, signature, constants, attributes = request.function._pack_args(
        request.backend, {**named, **options}, values, specialized, rest
    )
    arguments: list[Argument] = []
    for kind, value in zip(signature.values(), values.values(), strict=True):
        arguments += _passed(kind, value)
    return Specialization(signature, constants, attributes, options), arguments


def _passed(kind: Any, value: Any) -> list[Argument]:
    """What a kernel takes of an argument: nothing of what is compiled in, each item of a tuple."""
    if kind == "constexpr":
        return []
    if isinstance(kind, tuple | list):
        return [each for pair in zip(kind, value, strict=True) for each in _passed(*pair)]
    if hasattr(value, "base"):  # a descriptor, whose sizes and strides are passed behind it
        return [_array(value.base), *map(int, value.shape), *map(int, value.strides)]
    if hasattr(value, "data_ptr"):
        return [_array(value)]
    return [value if isinstance(value, int | float) else None]


def _array(tensor: Any) -> Array:
    """Size of a tensor; 0 of something that has a pointer alone."""
    if hasattr(tensor, "nbytes"):
        return Array(int(tensor.nbytes))
    if hasattr(tensor, "numel") and hasattr(tensor, "element_size"):
        return Array(int(tensor.numel() * tensor.element_size()))
    return Array(math.prod(getattr(tensor, "shape", (0,))))


def _by_rule(
    function: JITFunction[Any], named: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Specialization, list[Argument]]:
    """Tell by Triton's rules: 1 and None are compiled in, and what 16 divides is known to be divided."""
    signature, constants, attributes = dict[str, str](), dict[str, Any](), dict[tuple[int, ...], Any]()
    arguments: list[Argument] = []
    for place, parameter in enumerate(function.params):
        value = named.get(parameter.name, parameter.default)
        if parameter.is_constexpr or value is None or (type(value) is int and value == 1):
            signature[parameter.name], constants[parameter.name] = "constexpr", value
            continue
        signature[parameter.name] = _type(value)
        arguments += _passed("", value)
        address = value.data_ptr() if hasattr(value, "data_ptr") else value
        if isinstance(address, int) and address % _DIVISIBLE == 0 and type(address) is not bool:
            attributes[place,] = [["tt.divisibility", _DIVISIBLE]]
    return Specialization(signature, constants, attributes, options), arguments


def _type(value: Any) -> str:
    """Type of an argument in Triton's words."""
    if hasattr(value, "dtype"):
        return f"*{_TYPES[str(value.dtype).rpartition('.')[2]]}"
    if isinstance(value, bool):
        return "i1"
    if isinstance(value, int):
        return "i32" if -(2**31) <= value < 2**31 else "i64"
    return "fp32"


def _job(lowering: Lowering, launch: ReadLaunch, entry: ReadEntry) -> ReadJob:
    """What a worker has to know, once Triton's front end has seen the kernel."""
    source, options = lowering.source, dict(lowering.specialization.options)
    begun = begin_lowering(source, options, lowering.architecture)
    return ReadJob(
        name=source.name,
        ext=source.ext,
        language=source.language.value,
        code=str(begun.module),
        options=options,
        architecture=lowering.architecture,
        arguments=[each.bytes if isinstance(each, Array) else each for each in launch.arguments],
        arrays=[isinstance(each, Array) for each in launch.arguments],
        grid=launch.grid,
        warps=launch.warps,
        entry=entry,
    )
