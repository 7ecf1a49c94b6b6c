"""Reads what configs of a Helion kernel do, in the Triton code that Helion makes of each. Runs no kernel."""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import triton

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.files import cache_folder
from costmodel.integrations.triton._reading import FOLDER, ReadRequest, bind_config
from costmodel.kernels._read_facts import Reading
from costmodel.kernels.triton._read_cache import ReadCache
from costmodel.kernels.triton._read_many import BoundConfig, ManyReader
from costmodel.records._platform import Platform
from costmodel.threads import cpu_threads
from costmodel.transfer._read_ranker import shipped_ranker

# Seconds for Helion to make code, a sixth of a second for each config, and for Triton to lower it.
_MAKING_S, _LOWERING_S = 20.0, 20.0


def expected_log_s(
    kernel: Any, args: Sequence[object], configs: Sequence[Any], platform: Platform
) -> FloatArray:
    """Return the log latency that each config should have relative to the others, by what is read of it.

    Args:
        kernel: The ``helion.runtime.BoundKernel``.
        args: What it is called with.
        configs: Each a ``helion.Config``.
        platform: Where they would run.

    Returns:
        ``(n,)``; NaN for a config that cannot be read.
    """
    readings = read_helion_configs(kernel, args, configs, platform.device.architecture)
    return shipped_ranker().predict([None if each.note else each.facts for each in readings], platform)


def read_helion_configs(
    kernel: Any, args: Sequence[object], configs: Sequence[Any], architecture: str, workers: int | None = None
) -> list[Reading]:
    """Return what each config does; a note where it cannot be read, or not in time.

    Args:
        kernel: See ``expected_log_s``.
        args: Likewise.
        configs: Likewise.
        architecture: Architecture of the device, such as ``sm_90``.
        workers: Processes that lower side by side. Default: one for each hardware thread.
    """
    reader = ManyReader(
        ReadCache(cache_folder(FOLDER)), cpu_threads() if workers is None else workers, _LOWERING_S
    )
    return reader.read(list(_bound(kernel, args, configs, architecture)))


def _bound(
    kernel: Any, args: Sequence[object], configs: Sequence[Any], architecture: str
) -> Iterator[BoundConfig | Exception]:
    end = time.monotonic() + _MAKING_S
    for config in configs:
        if time.monotonic() > end:
            yield TimeoutError("There was no time left to make its code.")
            continue
        try:
            yield _bind(kernel, args, config, architecture)
        except Exception as error:  # noqa: BLE001 (of Helion or of Triton: the config stays unread)
            yield error


def _bind(kernel: Any, args: Sequence[object], config: Any, architecture: str) -> BoundConfig:
    """Tell what a config compiles and launches: the host function is run, with a launcher that only notes."""
    launches: list[tuple[ReadRequest, Any]] = []

    def note(function: Any, grid: Any, *given: Any, num_warps: int, num_stages: int, **_: Any) -> None:
        arguments = dict(zip(function.arg_names, given, strict=True))
        options = triton.Config({}, num_warps=num_warps, num_stages=num_stages)
        launches.append((ReadRequest(function, arguments, grid, architecture), options))

    kernel.compile_config(config, allow_print=False)(*args, _launcher=note)
    if len(launches) != 1:
        raise CostModelError(f"A kernel must be launched once to be read, but is {len(launches)} times.")
    return bind_config(*launches[0])
