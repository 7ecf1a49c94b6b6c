"""Configs of Kernel Tuner and the entries of its caches, as it writes them and as our exports show records.

Kernel Tuner (https://github.com/KernelTuner/kernel_tuner) stores milliseconds: ``times`` holds the repeats
and ``time`` their mean, or the name of a failure; newer versions write that as ``__error__``, without a time.
Entries measured through HIP may hold ``[0, ms]`` for a number. What our exports show of a record follows the
cache schema 1.1.0 (``kernel_tuner/schema/cache/1.1.0/schema.json``), which allows more fields than it names.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Self

import msgspec

from costmodel.dataset.sources._entry import (
    EntryError,
    to_decision,
    to_milliseconds,
    to_seconds,
    to_utc,
)
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement, Outcome
from costmodel.records._platform import Device, Platform, compute_capability, part_of
from costmodel.records._workload import Workload

# The parameter by which Kernel Tuner runs a kernel in a green context of so many percent of the SMs.
SM_PERCENTAGE = "cuda_sm_percentage"
# Fewest SMs of a green context and the step from there, by the major number of the architecture. Source: CUDA
# driver API, cuDevSmResourceSplitByCount; what is larger than the last has its numbers.
_GRANTED = {6: (1, 1), 7: (2, 2), 8: (4, 2), 9: (8, 8)}


@dataclass(frozen=True)
class TunedKernel:
    """A kernel with its tunable parameters and the platform that it is tuned on.

    The percentage of SMs is part of the platform, not a parameter of the kernel.

    Attributes:
        workload: The kernel with its problem size.
        space: Name of the space that configs are chosen from.
        parameters: Values of each parameter, in the order in which Kernel Tuner lists them.
        platform: Platform, unless a config restricts it to a part of the device.
    """

    workload: Workload
    space: str
    parameters: Mapping[str, Sequence[Any]]
    platform: Platform
    _parts: dict[float, Platform] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(
        cls, name: str, parameters: Mapping[str, Sequence[Any]], sizes: Sequence[int], platform: Platform
    ) -> Self:
        """Make the kernel with this name.

        The workload's kind contains a hash of the parameters' names and fixed values, because kernels of the
        same name in two suites can differ. Values that vary are not hashed, as a device may restrict them.

        Raises:
            ValueError: If the kernel is to run on a share of the SMs of a device whose number of SMs is
                unknown.
        """
        if SM_PERCENTAGE in parameters and not platform.device.sms:
            raise ValueError(
                f"the SMs of {platform.device.name} must be known, as {SM_PERCENTAGE} is a share of them"
            )
        own = {key: values for key, values in parameters.items() if key != SM_PERCENTAGE}
        fixed = {key: str(values[0]) if len(values) == 1 else None for key, values in own.items()}
        identity = content_id(name, fixed)[:6]
        kernel = re.sub(r"\W+", "_", name, flags=re.ASCII) or "kernel"
        workload = Workload(f"kernel_tuner.{kernel}.{identity}", dict(zip("xyz", sizes, strict=False)), "")
        return cls(workload, f"kernel_tuner-{identity}", parameters, platform)

    def decisions(self, values: Mapping[str, Any]) -> dict[str, Decision]:
        """Return the values of all parameters, and of nothing else, as the decisions of a config.

        Raises:
            EntryError: If a value is not among those of its parameter.
        """
        decisions = {name: to_decision(values[name]) for name in self.parameters}
        if any(value not in self.parameters[name] for name, value in decisions.items()):
            raise EntryError("a parameter's value must be among those of tune_params")
        return decisions

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """Return the candidate with these values, without the share of the SMs.

        Raises:
            EntryError: If a value is not among those of its parameter.
        """
        decisions = self.decisions(values)
        decisions.pop(SM_PERCENTAGE, None)
        return Candidate(self.workload, self.space, Config(decisions))

    def platform_of(self, values: Mapping[str, Any]) -> Platform:
        """Return the platform that a config with these values runs on.

        Raises:
            EntryError: If the share of the SMs is out of range.
        """
        if SM_PERCENTAGE not in self.parameters:
            return self.platform
        percentage = values[SM_PERCENTAGE]
        if percentage not in self._parts:
            self._parts[percentage] = _share_of(self.platform, percentage)
        return self._parts[percentage]


def _share_of(whole: Platform, percentage: float) -> Platform:
    """Return a green context of at least so many percent of a device's SMs, as Kernel Tuner asks for it."""
    if not 0 < percentage <= 100:
        raise EntryError(f"{SM_PERCENTAGE} must be above 0 and at most 100")
    device = whole.device
    requested = max(1, round(device.sms * percentage / 100))
    part = part_of(device, _granted(device, requested))
    return msgspec.structs.replace(part, sms_requested=requested, software=whole.software)


def _granted(device: Device, requested: int) -> int:
    """SMs that the driver grants where so many are asked for."""
    major = compute_capability(device.architecture) // 10
    least, step = _GRANTED.get(min(major, max(_GRANTED)), (1, 1))
    return min(device.sms, least + step * max(0, -(-(requested - least) // step)))


FAILURES = {
    "InvalidConfig": Outcome.INVALID_CONFIG,
    "CompilationFailedConfig": Outcome.COMPILE_ERROR,
    "RuntimeFailedConfig": Outcome.LAUNCH_ERROR,
}
_ERROR = "__error__"
_TOLERANCE = 0.01  # of the mean; rounding stays far below, another set of repeats does not


def read_entry(kernel: TunedKernel, key: str, entry: Any) -> Measurement:
    """Return the measurement that an entry holds.

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
        measured_at=to_utc(entry.get("timestamp", "")),
        error="" if latencies_s else _failure(entry),
    )


def repairs(entry: Mapping[str, Any]) -> Iterator[str]:
    """Yield what of an entry that `read_entry` accepts is not read as it is written, a clause each."""
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
    """Return the entry, which has a value for each parameter and is where its key says."""
    if not entry.keys() >= kernel.parameters.keys():
        raise EntryError("an entry must have a value for each of tune_params_keys")
    if key != ",".join(str(entry[name]) for name in kernel.parameters):
        raise EntryError("the key of an entry must list its parameters' values")
    return entry


def _failure(entry: Mapping[str, Any]) -> Any:
    """Return the name of the failure that an entry holds; of one that does not fail, something else."""
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
            return to_seconds(number, 1e3, "time and times")
    raise EntryError("time and times must be numbers or pairs [0, ms]")


_NOT_CHOSEN = "-"  # what a config shows of a parameter that its sketch has not
_SHOWN_FAILURES = {outcome: name for name, outcome in FAILURES.items()}
_SHOWN_FAILURES |= dict.fromkeys(
    (Outcome.TIMEOUT, Outcome.WRONG_RESULT), _SHOWN_FAILURES[Outcome.LAUNCH_ERROR]
)
# The schema wants them, and our records do not have them.
_UNKNOWN_TIMES = dict.fromkeys(
    ("compile_time", "verification_time", "benchmark_time", "strategy_time", "framework_time"), 0.0
)


def show_config(names: Sequence[str], config: Config) -> dict[str, int | float | str]:
    """Return the value of each parameter; factors of a tile as in ``4x1x16``."""
    return {name: _show(config.decisions.get(name, _NOT_CHOSEN)) for name in names}


def show_key(names: Sequence[str], config: Config) -> str:
    """Return the key of a config in a cache."""
    return ",".join(map(str, show_config(names, config).values()))


def show_entry(names: Sequence[str], records: Sequence[Measurement]) -> dict[str, Any]:
    """Return the entry of these records of one config: it shows the first.

    A parameter that has the name of a field, such as ``time``, is not shown: Kernel Tuner cannot have it.

    Args:
        names: The cache's ``tune_params_keys``.
        records: The first is shown, in milliseconds; a failure by the nearest that Kernel Tuner knows.
    """
    first = records[0]
    times = to_milliseconds(first.latencies_s)
    return {
        **show_config(names, first.candidate.config),
        "time": fmean(times) if times else _SHOWN_FAILURES[first.outcome],
        "times": times,
        **_UNKNOWN_TIMES,
        "timestamp": first.measured_at,
    }


def _show(value: Decision) -> int | float | str:
    return "x".join(map(str, value)) if isinstance(value, tuple) else value
