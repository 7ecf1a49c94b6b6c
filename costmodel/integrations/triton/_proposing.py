"""Configs of a user's own kernel that come without a list: made for the arguments of a launch.

They are kept with what was read, so that another process finds them again at once.
"""

import hashlib
import inspect
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import triton
from triton.runtime.jit import JITFunction

from costmodel import transfer
from costmodel.errors import CostModelError
from costmodel.files import cache_folder, write_whole
from costmodel.integrations.triton._reading import FOLDER, ReadRequest, try_binding
from costmodel.kernels._read_facts import ReadFacts, Reading
from costmodel.kernels.triton._read_cache import ReadCache, reader_hash
from costmodel.kernels.triton._read_many import ManyReader
from costmodel.kernels.triton.proposing import _propose
from costmodel.kernels.triton.proposing._open_space import STAGES, WARPS, OpenLaunch
from costmodel.kernels.triton.proposing._propose import OpenConfig, Proposer
from costmodel.kernels.triton.proposing._uses import find_uses
from costmodel.records._platform import Platform

_COUNT = 16
_TIMEOUT_S = 60.0


def propose_for(request: ReadRequest, platform: Platform, workers: int) -> list[Any]:
    """Return configs for a launch, each a ``triton.Config``, the most promising first; one if interpreted.

    Args:
        request: Kernel and launch.
        platform: Where it would run.
        workers: Processes that read side by side.

    Raises:
        CostModelError: The kernel leaves nothing open, cannot be read here, or nothing can be right.
    """
    launch = open_launch(request, platform.sms_granted)
    if not isinstance(request.function, JITFunction):  # interpreted: nothing tells of speed
        return [_to_triton(launch.plain())]
    if platform.device.kind != "cuda":
        raise CostModelError(
            "configs='auto' must have an NVIDIA GPU to make configs for, but there is none. Give configs."
        )
    folder = cache_folder(FOLDER)
    file = folder / f"{_hash(request, launch, platform)}.configs.json"
    if file.is_file():
        return [_to_triton(each) for each in json.loads(file.read_bytes())]
    reader = ManyReader(ReadCache(folder), workers, _TIMEOUT_S, with_faults=True)

    def read(configs: Sequence[OpenConfig]) -> list[Reading]:
        return reader.read([try_binding(request, _to_triton(each)) for each in configs])

    def rank(facts: Sequence[ReadFacts]) -> Any:
        from costmodel.transfer._read_ranker import shipped_ranker

        return shipped_ranker().predict(facts, platform)

    found = Proposer(launch.space(), request.architecture, read, rank).propose(_COUNT)
    write_whole(file, json.dumps(found).encode())
    return [_to_triton(each) for each in found]


def open_launch(request: ReadRequest, sms: int) -> OpenLaunch:
    """Tell what a launch leaves open.

    Args:
        request: Kernel and launch.
        sms: SMs that it has.

    Raises:
        CostModelError: The grid is not a function of the parameters, or other arguments are missing.
    """
    told = {**request.arguments, **dict.fromkeys(request.rules)}
    declared = inspect.signature(request.function.fn).parameters.values()
    missing = [each for each in declared if each.name not in told and each.default is each.empty]
    if plain := [each.name for each in missing if "constexpr" not in str(each.annotation)]:
        raise CostModelError(f"The call must give {', '.join(plain)}, but does not.")
    numbers = {name: value for name, value in told.items() if type(value) is int}
    sizes = {
        f"{name}.shape[{axis}]": size
        for name, value in told.items()
        for axis, size in enumerate(getattr(value, "shape", ()))
    }

    def grid(chosen: Mapping[str, int]) -> Sequence[int]:
        programs = request.grid({**told, **chosen}) if callable(request.grid) else request.grid
        return list(programs)

    names = [each.name for each in missing]
    return OpenLaunch(find_uses(request.function), names, grid, {**sizes, **numbers}, sms)


def _to_triton(config: OpenConfig) -> Any:
    options = {name: config[name] for name in (WARPS, STAGES) if name in config}
    return triton.Config({name: value for name, value in config.items() if name not in options}, **options)


def _hash(request: ReadRequest, launch: OpenLaunch, platform: Platform) -> str:
    """Hash what the list depends on."""
    arrays = [str(getattr(each, "dtype", "")) for each in request.arguments.values()]
    space = launch.space()
    told = [
        request.function.cache_key,
        triton.__version__,
        reader_hash(),
        reader_hash(Path(_propose.__file__).parent),
        Path(transfer.__file__).with_name("read_ranker.npz").stat().st_mtime_ns,
        arrays,
        sorted(launch.numbers.items()),
        {name: list(values) for name, values in space.choices.items()},
        platform.device.name,
        platform.sms_granted,
    ]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()
