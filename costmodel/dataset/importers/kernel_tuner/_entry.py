"""One entry of a Kernel Tuner cache: the config and what came of it, checked before it is believed.

Kernel Tuner (https://github.com/KernelTuner/kernel_tuner) stores milliseconds: ``times`` holds the repeats
and ``time`` their mean, or the name of a failure. Entries measured through HIP may hold ``[0, ms]`` for a
number.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from costmodel.dataset.importers._entry import EntryError, decision, seconds, utc
from costmodel.records import Candidate, Config, Measurement, Outcome, Platform, Workload

FAILURES = {
    "InvalidConfig": Outcome.INVALID_CONFIG,
    "CompilationFailedConfig": Outcome.COMPILE_ERROR,
    "RuntimeFailedConfig": Outcome.LAUNCH_ERROR,
}
_TOLERANCE = 0.01  # of the mean; rounding stays far below, another set of repeats does not


@dataclass(frozen=True)
class Space:
    """What the entries of one cache share.

    Attributes:
        workload: The kernel with its problem size.
        name: Name of the space that configs are chosen from.
        parameters: Values of each parameter, in the order in which an entry's key lists them.
        platform: Where it was measured.
    """

    workload: Workload
    name: str
    parameters: Mapping[str, Sequence[Any]]
    platform: Platform


def read_entry(space: Space, key: str, entry: Any) -> Measurement:
    """The measurement that an entry holds.

    Raises:
        EntryError: It contradicts itself or the cache, or a number is not one.
    """
    if not isinstance(entry, dict):
        raise EntryError("an entry must be an object")
    outcome, latencies_s = _result(entry)
    return Measurement(
        candidate=Candidate(space.workload, space.name, _config(space, key, entry)),
        platform=space.platform,
        outcome=outcome,
        latencies_s=latencies_s,
        runs_per_repeat=1 if latencies_s else 0,
        measured_at=utc(entry.get("timestamp", "")),
        error="" if latencies_s else entry["time"],
    )


def repairs(entry: Mapping[str, Any]) -> Iterator[str]:
    """What of an entry that `read_entry` accepts is not read as it is written, a clause each."""
    time, repeats = entry["time"], entry.get("times") or []
    if isinstance(time, str):
        yield f"time is the text {time}, which is read as that failure"
        if repeats:
            yield "a failed config has times, which are left out"
    elif any(isinstance(value, list) for value in (time, *repeats)):
        yield "time or times hold pairs [0, ms], of which the second number is read"
    elif not repeats:
        yield "times are missing, and time is read as the only repeat"


def overheads(entry: Mapping[str, Any], latencies_s: Sequence[float]) -> Iterator[float]:
    """What an accepted entry says of the time that measuring took, in terms of its repeats; once or not."""
    took_ms = entry.get("benchmark_time")
    if latencies_s and isinstance(took_ms, int | float) and 0 < took_ms < math.inf:
        yield took_ms / (1e3 * sum(latencies_s))


def _config(space: Space, key: str, entry: Mapping[str, Any]) -> Config:
    if not entry.keys() >= space.parameters.keys():
        raise EntryError("an entry must have a value for each of tune_params_keys")
    if key != ",".join(str(entry[name]) for name in space.parameters):
        raise EntryError("the key of an entry must list its parameters' values")
    decisions = {name: decision(entry[name]) for name in space.parameters}
    if any(value not in space.parameters[name] for name, value in decisions.items()):
        raise EntryError("a parameter's value must be among those of tune_params")
    return Config(decisions)


def _result(entry: Mapping[str, Any]) -> tuple[Outcome, tuple[float, ...]]:
    """Outcome and seconds of each repeat.

    A failure stays one where repeats are given: the kernel ran, and the suite did not accept it.
    """
    time = entry.get("time")
    if isinstance(time, str):
        if time not in FAILURES:
            raise EntryError(f"time must be a number or one of {', '.join(FAILURES)}")
        return FAILURES[time], ()
    mean_s, repeats = _seconds(time), entry.get("times") or [time]
    if not isinstance(repeats, list):
        raise EntryError("times must be a list")
    latencies_s = tuple(_seconds(repeat) for repeat in repeats)
    if not math.isclose(fmean(latencies_s), mean_s, rel_tol=_TOLERANCE):
        raise EntryError(f"time must be the mean of times, to {_TOLERANCE:.0%}")
    return Outcome.OK, latencies_s


def _seconds(value: Any) -> float:
    match value:
        case [0, number] | number if isinstance(number, int | float) and not isinstance(number, bool):
            return seconds(number, 1e3, "time and times")
    raise EntryError("time and times must be numbers or pairs [0, ms]")
