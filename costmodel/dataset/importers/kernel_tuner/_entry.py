"""One entry of a Kernel Tuner cache: the config and what came of it, checked before it is believed.

Kernel Tuner (https://github.com/KernelTuner/kernel_tuner) stores milliseconds: ``times`` holds the repeats
and ``time`` their mean, or the name of a failure; newer versions write that as ``__error__``, without a time.
Entries measured through HIP may hold ``[0, ms]`` for a number.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from costmodel.dataset.importers._entry import EntryError, seconds, utc
from costmodel.dataset.importers.kernel_tuner._kernel import TunedKernel
from costmodel.records._measurement import Measurement, Outcome

FAILURES = {
    "InvalidConfig": Outcome.INVALID_CONFIG,
    "CompilationFailedConfig": Outcome.COMPILE_ERROR,
    "RuntimeFailedConfig": Outcome.LAUNCH_ERROR,
}
_ERROR = "__error__"
_TOLERANCE = 0.01  # of the mean; rounding stays far below, another set of repeats does not


def read_entry(kernel: TunedKernel, key: str, entry: Any) -> Measurement:
    """The measurement that an entry holds.

    Raises:
        EntryError: It contradicts itself or the cache, or a number is not one.
    """
    if not isinstance(entry, dict):
        raise EntryError("an entry must be an object")
    outcome, latencies_s = _result(entry)
    return Measurement(
        candidate=kernel.candidate(_values(kernel, key, entry)),
        platform=kernel.platform_of(entry),
        outcome=outcome,
        latencies_s=latencies_s,
        runs_per_repeat=1 if latencies_s else 0,
        measured_at=utc(entry.get("timestamp", "")),
        error="" if latencies_s else _failure(entry),
    )


def repairs(entry: Mapping[str, Any]) -> Iterator[str]:
    """What of an entry that `read_entry` accepts is not read as it is written, a clause each."""
    time, repeats = entry.get("time"), entry.get("times") or []
    if isinstance(time, str):
        yield f"time is the text {time}, which is read as that failure"
    if isinstance(_failure(entry), str):
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


def _values(kernel: TunedKernel, key: str, entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entry, which has a value for each parameter and is where its key says."""
    if not entry.keys() >= kernel.parameters.keys():
        raise EntryError("an entry must have a value for each of tune_params_keys")
    if key != ",".join(str(entry[name]) for name in kernel.parameters):
        raise EntryError("the key of an entry must list its parameters' values")
    return entry


def _failure(entry: Mapping[str, Any]) -> Any:
    """The name of the failure that an entry holds; of one that does not fail, something else."""
    return entry.get(_ERROR, entry.get("time"))


def _result(entry: Mapping[str, Any]) -> tuple[Outcome, tuple[float, ...]]:
    """Outcome and seconds of each repeat.

    A failure stays one where repeats are given: the kernel ran, and the suite did not accept it.
    """
    time, failure = entry.get("time"), _failure(entry)
    if isinstance(failure, str):
        if failure not in FAILURES:
            raise EntryError(f"time must be a number or one of {', '.join(FAILURES)}")
        return FAILURES[failure], ()
    mean_s, repeats = _seconds(time), entry.get("times") or [time]
    if not isinstance(repeats, list):
        raise EntryError("times must be a list")
    latencies_s = tuple(_seconds(repeat) for repeat in repeats)
    if not math.isclose(fmean(latencies_s), mean_s, rel_tol=_TOLERANCE):
        raise EntryError(f"time must be the mean of times, within {_TOLERANCE:.0%}")
    return Outcome.OK, latencies_s


def _seconds(value: Any) -> float:
    match value:
        case [0, number] | number if isinstance(number, int | float) and not isinstance(number, bool):
            return seconds(number, 1e3, "time and times")
    raise EntryError("time and times must be numbers or pairs [0, ms]")
