"""The network, compiled with each database and run side by side on parts of the device."""

from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from device_parts import Launch, Parts

from costmodel.collector.device._timing import Stopwatch

UNTUNED = "untuned"
AGAIN = " (A/A)"
REPEAT_S = 5e-3  # length that a repeat aims at
MOST_RUNS = 100  # in a repeat


def load(
    databases: Mapping[str, Any], module: Any, target: Any, device: Any, inputs: Sequence[np.ndarray]
) -> dict[str, Launch]:
    """What runs the network, by name: as compiled without a database, with each, and with the last once more.

    Args:
        databases: By name.
        module: The network in Relax.
        target: Of TVM.
        device: Of TVM.
        inputs: Embeddings and weights.
    """
    import tvm
    from tvm import relax
    from tvm.s_tir import meta_schedule as ms

    arguments = [tvm.runtime.tensor(array, device) for array in inputs]
    executables = {
        name: ms.relax_integration.compile_relax(database, module, target, None)
        for name, database in {UNTUNED: ms.database.MemoryDatabase(), **databases}.items()
    }
    last = list(executables)[-1]
    executables[last + AGAIN] = executables[last]
    return {
        name: partial(relax.VirtualMachine(executable, device)["forward"], *arguments)
        for name, executable in executables.items()
    }


def run_side_by_side(
    launches: Mapping[str, Launch], right: np.ndarray, parts: Parts, budgets: Mapping[str, int], visits: int
) -> dict[str, Any]:
    """Compare each network's output on each part with the right one, then time them all.

    Args:
        launches: Networks by name.
        right: Output.
        parts: The device.
        budgets: SMs of each part, by its name.
        visits: Repeats of each network on each part.

    Returns:
        ``granted``: SMs by part; ``largest_error``: by network; ``latency_s``: by network and part.
    """
    errors = {
        name: max(largest_error(parts, sms, launch, right) for sms in budgets.values())
        for name, launch in launches.items()
    }
    return {
        "granted": {name: parts.enter(sms) for name, sms in budgets.items()},
        "largest_error": errors,
        "latency_s": time_side_by_side(launches, parts, budgets, visits),
    }


def largest_error(parts: Parts, sms: int, launch: Launch, right: np.ndarray) -> float:
    """Largest difference of the network's output on a part from the right one; NaN where there is a NaN."""
    parts.enter(sms)
    output: Any = launch()
    parts.synchronize()
    return float(np.max(np.abs(output.numpy() - right)))


def time_side_by_side(
    launches: Mapping[str, Launch], parts: Parts, budgets: Mapping[str, int], visits: int
) -> dict[str, dict[str, float]]:
    """Seconds of one run by network and part: the median of as many repeats as visits.

    The repeats of all take turns, so that what drifts slowly meets all alike.
    """
    watches: dict[tuple[str, str], Stopwatch] = {}
    runs: dict[tuple[str, str], int] = {}
    for part, sms in budgets.items():
        parts.enter(sms)
        for name, launch in launches.items():
            launch()  # loads kernels and fills the pool of memory, which a capture must find filled
            watch = watches[name, part] = parts.stopwatch(launch)
            runs[name, part] = max(1, min(MOST_RUNS, round(REPEAT_S / watch.time(1))))
    seconds: dict[tuple[str, str], list[float]] = {key: [] for key in watches}
    for _ in range(visits):
        for (name, part), watch in watches.items():
            parts.enter(budgets[part])
            seconds[name, part].append(watch.time(runs[name, part]))
    return {name: {part: median(seconds[name, part]) for part in budgets} for name in launches}
