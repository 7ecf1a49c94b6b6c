"""Reads what configs of a user's own kernel do, for the arguments of a launch, without running anything.

Triton's own binder tells what a launch would compile, as far as it can be had; else types and what divides
sizes are told by the same rules. A config of which anything fails gets a note.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
from triton.compiler.compiler import make_backend
from triton.runtime import jit
from triton.runtime.jit import JITFunction

from costmodel.files import cache_folder, write_whole
from costmodel.integrations.triton._question import Question, triton_to_config
from costmodel.kernels._read_facts import ReadFacts, Reading, describe_failure
from costmodel.kernels.triton._lower import UNREAD_OPTIONS, Lowering, Specialization, target_of
from costmodel.kernels.triton._read_cache import ReadCache, reader_hash
from costmodel.kernels.triton._read_many import BoundConfig, ManyReader
from costmodel.kernels.triton._values import Argument, Array, ReadLaunch
from costmodel.records._identity import content_id

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
    reader = ManyReader(ReadCache(cache_folder(FOLDER) if cache is None else cache), workers, timeout_s)
    return reader.read([try_binding(request, config) for config in configs])


@dataclass(frozen=True)
class LaunchReader:
    """Reads the configs of a launch, and keeps what it read for whoever asks for another size of the kernel.

    Attributes:
        request: Kernel and launch.
        asked: The same in words of the store.
        configs: Each a ``triton.Config``.
        workers: See ``read_configs``.
    """

    request: ReadRequest
    asked: Question
    configs: Sequence[Any]
    workers: int

    def read(self) -> Sequence[Reading]:
        """Return what each config does; notes where it cannot be read."""
        try:
            readings = read_configs(self.request, self.configs, workers=self.workers)
            self._keep(readings)
        except Exception as error:  # noqa: BLE001 (of Triton or of the disk: the configs stay unread)
            return [Reading(note=describe_failure(error))] * len(self.configs)
        return readings

    def recall(self, workload: str) -> Mapping[str, ReadFacts]:
        """Return what was read of configs for another workload of the kernel, by their ids."""
        try:
            content = _kept_file(self.asked.space, workload).read_bytes()
            return msgspec.json.decode(content, type=dict[str, ReadFacts])
        except (OSError, msgspec.DecodeError):
            return {}

    def _keep(self, readings: Sequence[Reading]) -> None:
        space, workload = self.asked.space, self.asked.workload.name
        known = {
            triton_to_config(config).config_id: reading.facts
            for config, reading in zip(self.configs, readings, strict=True)
            if not reading.note
        }
        content = msgspec.json.encode({**self.recall(workload), **known})
        write_whole(_kept_file(space, workload), content, is_lasting=False)


def _kept_file(space: str, workload: str) -> Path:
    return cache_folder(FOLDER) / f"{content_id(space, workload, reader_hash())}.workload.json"


def try_binding(request: ReadRequest, config: Any) -> BoundConfig | Exception:
    """Do what ``bind_config`` does; return what it raises."""
    try:
        return bind_config(request, config)
    except Exception as error:  # noqa: BLE001 (of Triton or of a user's hook: the config stays unread)
        return error


def bind_config(request: ReadRequest, config: Any) -> BoundConfig:
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
    return BoundConfig(Lowering(function, specialization, request.architecture), launch)


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
