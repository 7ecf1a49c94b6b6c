"""Orders the configs of the kernels that a user's program launches, by what is read of them or by timings."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import triton

from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.integrations.triton._apart import RankedKernel
from costmodel.integrations.triton._autotune import autotune
from costmodel.integrations.triton._platform import current_platform
from costmodel.integrations.triton._program import first_launches
from costmodel.integrations.triton._proposing import propose_for
from costmodel.integrations.triton._question import triton_to_config
from costmodel.integrations.triton._reading import ReadRequest, read_configs
from costmodel.integrations.triton._running import ProgramLaunch, TimeLimit, nothing_launched, run_answered
from costmodel.kernels._read_facts import Reading
from costmodel.kernels.triton.proposing._uses import find_uses
from costmodel.products._model import meant_gpu
from costmodel.records._device_table import find_device
from costmodel.records._platform import Platform, part_of
from costmodel.threads import cpu_threads
from costmodel.transfer._read_ranker import ExpectedTime, expect_times

_TIMEOUT_S = 60.0
_WARPS, _STAGES = 4, 3  # Triton's defaults
_COMPILER_OPTIONS = ("num_warps", "num_stages")


def rank_here(
    file: Path, device: str, sms: int | None, workers: int | None, limit: TimeLimit | None = None
) -> list[RankedKernel]:
    """Do what ``rank_program`` does, in this process."""
    platform = part_of(find_device(meant_gpu(device)), sms)
    if platform.device.kind != "cuda":
        raise CostModelError(
            f"Configs are read for GPUs of NVIDIA, but {platform.device.name} is none. `costmodel devices "
            "list` shows those that are known."
        )
    found = first_launches(file, platform.device, limit)
    workers = cpu_threads() if workers is None else workers
    return [replace(_rank(each, platform, workers), ended_by=found.ended_by) for each in found.launches]


def tune_here(
    file: Path, sms: int | None, trials: int, store: str | None, limit: TimeLimit | None = None
) -> list[RankedKernel]:
    """Do what ``tune_program`` does, in this process."""
    from costmodel.integrations.inductor._sms import on_part  # loads torch

    try:
        current_platform()
    except CostModelError as error:
        raise DeviceUnavailableError(
            "Timing the kernels of a program needs an NVIDIA GPU, but there is none here. rank_program, and "
            "`costmodel tune` without --runner, order their configs by what is read of them."
        ) from error

    found: dict[Any, tuple[RankedKernel, Callable[[ProgramLaunch], Any]]] = {}

    def answer(launch: ProgramLaunch, make: Callable[[], Any]) -> Any:
        if launch.is_warmup:
            return make()
        if launch.function in found:
            return found[launch.function][1](launch)
        found[launch.function] = _tune(launch, trials, store)
        return None

    with nullcontext() if sms is None else on_part(sms):
        ended_by = run_answered(file, answer, limit)
    if not found:
        raise nothing_launched(file, ended_by)
    return [replace(kernel, ended_by=ended_by) for kernel, _ in found.values()]


def _tune(
    launch: ProgramLaunch, trials: int, store: str | None
) -> tuple[RankedKernel, Callable[[ProgramLaunch], Any]]:
    """Time configs of a launch and make it; return what is known of them, and what makes later ones."""
    own, open_names, configs = None, set[str](), list(launch.configs)
    platform, tuner = current_platform(), launch.tuner
    if not configs:
        own, _, configs = open_configs(launch, platform, cpu_threads())
        open_names = {*own.all_kwargs()}
    sizes = [name for name, value in launch.arguments.items() if type(value) is int]
    key = [name for name in sizes if name not in open_names] if tuner is None else tuner.keys
    kernel = launch.function if tuner is None else tuner.fn
    tuned = autotune(configs, key, store=store, shortlist=trials)(kernel)
    tuned.begins_with = own
    if tuner is None:
        tuned.pre_hook = _putting_back(launch.arguments)
    else:  # what its author wants to be done around each run
        tuned.pre_hook, tuned.post_hook = tuner.pre_hook, tuner.post_hook

    def given(later: ProgramLaunch) -> dict[str, Any]:
        return {name: value for name, value in later.arguments.items() if name not in open_names}

    def make(later: ProgramLaunch) -> Any:
        return tuned.fn.run(grid=later.grid, warmup=False, **given(later), **tuned.best_config.all_kwargs())

    tuned.run(grid=launch.grid, warmup=False, **given(launch))
    expected = tuned.configs_expected
    return ranked(launch, platform, configs, [expected.get(each) for each in configs], own), make


def _putting_back(arguments: Mapping[str, Any]) -> Callable[..., None]:
    """What puts back, once configs were timed, what tensors hold now: a kernel may write what it reads."""
    kept: dict[int, tuple[Any, Any]] = {}
    with suppress(RuntimeError):  # too large to be held twice
        for each in arguments.values():
            tensor = getattr(each, "base", each)  # of a descriptor
            if hasattr(tensor, "untyped_storage"):
                storage = tensor.untyped_storage()
                kept[storage.data_ptr()] = storage, storage.clone()

    def put_back(*_: Any, reset_only: bool = False, **__: Any) -> None:
        if reset_only:
            for storage, content in kept.values():
                storage.copy_(content)
            kept.clear()

    return put_back


def _rank(launch: ProgramLaunch, platform: Platform, workers: int) -> RankedKernel:
    own, request = None, _request(launch, launch.arguments, platform)
    configs = list(launch.configs)
    if not configs:
        own, request, configs = open_configs(launch, platform, workers)
    readings = read_configs(request, configs, workers=workers, timeout_s=_TIMEOUT_S)
    facts = [None if each.note else each.facts for each in readings]
    told = expect_times(facts, platform, np.full(len(configs), math.nan))
    return ranked(launch, platform, configs, told, own, readings)


def ranked(  # noqa: PLR0913, PLR0917 (what is known of one kernel)
    launch: ProgramLaunch,
    platform: Platform,
    configs: Sequence[Any],
    told: Sequence[ExpectedTime | None],
    own: Any,
    readings: Sequence[Reading] = (),
) -> RankedKernel:
    """Put what is known of the configs of a launch together, the fastest first."""
    known = [
        (time, triton_to_config(config))
        for time, config in zip(told, configs, strict=True)
        if time is not None
    ]
    known.sort(key=lambda pair: pair[0])
    every = [triton_to_config(config).decisions for config in configs]
    return RankedKernel(
        name=launch.name,
        launch={name: _in_words(value) for name, value in launch.arguments.items()},
        platform=platform.name,
        configs=[config for _, config in known],
        expected=[time for time, _ in known],
        own=None if own is None else triton_to_config(own),
        chosen=[name for name in every[0] if len({each.get(name) for each in every}) > 1],
        unread=Counter(each.note for each in readings if each.note),
        is_guessed=any(each.facts.guessed_bounds > 0 for each in readings if not each.note),
    )


def open_configs(
    launch: ProgramLaunch, platform: Platform, workers: int
) -> tuple[Any, ReadRequest, list[Any]]:
    """Make configs of a kernel without a list: its own first, then such as may be faster.

    Returns:
        The kernel's own config, what is read for all of them, and the configs.
    """
    arguments = launch.arguments
    chosen = {name: arguments[name] for name in _open_parameters(launch)}
    own = triton.Config(
        chosen,
        num_warps=arguments.get("num_warps", _WARPS),
        num_stages=arguments.get("num_stages", _STAGES),
    )
    left = {name: each for name, each in arguments.items() if name not in {*chosen, *_COMPILER_OPTIONS}}
    request = _request(launch, left, platform)
    try:
        proposed = propose_for(request, platform, workers)
    except CostModelError:  # nothing else can be right, as far as can be read
        proposed = []
    distinct = {triton_to_config(each).config_id: each for each in (own, *proposed)}
    return own, request, list(distinct.values())


def _request(launch: ProgramLaunch, arguments: Mapping[str, Any], platform: Platform) -> ReadRequest:
    return ReadRequest(launch.function, arguments, launch.grid, platform.device.architecture, launch.rules)


def _open_parameters(launch: ProgramLaunch) -> list[str]:
    """Name the parameters whose value a call gives, and the result is unlikely to depend on."""
    if not callable(launch.grid):
        return []
    looked_up = _LookedUp(launch.arguments)
    launch.grid(looked_up)
    uses = find_uses(launch.function)
    return [
        each.name
        for each in launch.function.params
        if each.is_constexpr
        and type(launch.arguments.get(each.name)) is int
        and uses.use(each.name) != "text"
        and each.name in looked_up.names | uses.paces
    ]


class _LookedUp(dict[str, Any]):
    """Notes which of its items are asked for."""

    def __init__(self, items: Mapping[str, Any]) -> None:
        super().__init__(items)
        self.names: set[str] = set()

    def __getitem__(self, name: str) -> Any:
        self.names.add(name)
        return super().__getitem__(name)


def _in_words(value: Any) -> str:
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{str(value.dtype).rpartition('.')[2]}[{', '.join(map(str, value.shape))}]"
    return str(value)
