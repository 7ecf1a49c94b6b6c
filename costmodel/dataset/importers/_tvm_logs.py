"""What the logs of TVM's older tuners share: AutoTVM's and auto_scheduler's.

Both end a record with ``[seconds of each run, error, seconds that it all took, time]``, and name where they
measured by a target string. Source: TVM 0.14, ``python/tvm/autotvm/measure/measure.py`` and
``python/tvm/auto_scheduler/measure.py``.
"""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

import msgspec

from costmodel.dataset.importers._entry import EntryError, seconds
from costmodel.dataset.importers._origin import Origin
from costmodel.dataset.importers._platform_file import PlatformFile, needed_platform
from costmodel.errors import CostModelError
from costmodel.records._device_table import find_device
from costmodel.records._measurement import Outcome
from costmodel.records._platform import Device, DeviceKind, Platform

# By ``error_no``, and what TVM calls it.
_OUTCOMES = {
    0: (Outcome.OK, ""),
    1: (Outcome.INVALID_CONFIG, "INSTANTIATION_ERROR"),
    2: (Outcome.COMPILE_ERROR, "COMPILE_HOST"),
    3: (Outcome.COMPILE_ERROR, "COMPILE_DEVICE"),
    4: (Outcome.LAUNCH_ERROR, "RUNTIME_DEVICE"),
    5: (Outcome.WRONG_RESULT, "WRONG_ANSWER"),
    6: (Outcome.COMPILE_ERROR, "BUILD_TIMEOUT"),
    7: (Outcome.TIMEOUT, "RUN_TIMEOUT"),
    8: (Outcome.LAUNCH_ERROR, "UNKNOWN_ERROR"),
}
_KINDS: dict[str, DeviceKind] = {"cuda": "cuda", "rocm": "hip", "hip": "hip", "llvm": "cpu", "c": "cpu"}
_ATTRIBUTE = re.compile(r"-([\w-]+)=(\S+)")


class TvmResult(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """The result of a record."""

    costs_s: list[float]
    error_no: int
    took_s: float
    timestamp: float

    @property
    def outcome(self) -> tuple[Outcome, str]:
        """How it ended, and the message of a failure.

        Raises:
            EntryError: It is no error of TVM.
        """
        if self.error_no not in _OUTCOMES:
            raise EntryError(f"error_no must be 0 to {max(_OUTCOMES)}")
        return _OUTCOMES[self.error_no]

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Seconds of each run; none where it failed.

        Raises:
            EntryError: A number is none.
        """
        if self.error_no:
            return ()
        if not self.costs_s:
            raise EntryError("a record without an error must have costs")
        return tuple(seconds(cost, 1.0, "costs") for cost in self.costs_s)

    @property
    def measured_at(self) -> str:
        """The time in UTC; empty for 0, which stands for none.

        Raises:
            EntryError: It is no time.
        """
        try:
            if not self.timestamp >= 0:
                raise ValueError  # noqa: TRY301 (as datetime itself does)
            return datetime.fromtimestamp(self.timestamp, UTC).isoformat() if self.timestamp else ""
        except (ValueError, OverflowError, OSError):
            raise EntryError("a timestamp must be seconds since 1970") from None


@dataclass(frozen=True)
class TvmPlatforms:
    """Where the records of a log were measured.

    Attributes:
        path: The log.
        where: What its platform file says, if it has one.
        origin: The log by its checksum.
        software_key: By what the platform's software names the log.
    """

    path: Path
    where: PlatformFile | None
    origin: Origin
    software_key: str
    _known: dict[tuple[str, int], Platform] = field(default_factory=dict)

    def find(self, target: str, cores: int = 0) -> Platform:
        """Find the platform of a target.

        Args:
            target: The target, such as ``cuda -keys=cuda,gpu -model=t4``.
            cores: Of a CPU, the threads that the kernel could use, as the record has it; 0 where it has not.

        Raises:
            CostModelError: Nothing says it.
            EntryError: The target is for another kind of device.
        """
        if (target, cores) not in self._known:
            self._known[target, cores] = self._find(target, cores)
        return self._known[target, cores]

    def _find(self, target: str, cores: int) -> Platform:
        if self.where and self.where.platform.device.kind != _device_kind(target):
            raise EntryError("the target of a record must match the platform's kind of device")
        said = None if self.where else _platform_of_target(target, cores)
        platform = said or needed_platform(self.where, self.path).platform
        software = {**platform.software, self.software_key: self.origin.text}
        return msgspec.structs.replace(platform, software=software)


def _device_kind(target: str) -> DeviceKind:
    kind, *_ = target.split() or [""]
    if kind not in _KINDS:
        raise EntryError(f"a target must begin with one of {', '.join(_KINDS)}")
    return _KINDS[kind]


@lru_cache(maxsize=4096)
def _platform_of_target(target: str, cores: int) -> Platform | None:
    """Return the whole device that a target names by ``model`` or, of a CPU, ``mcpu``; None for no name."""
    kind = _device_kind(target)
    said: dict[str, str] = dict(_ATTRIBUTE.findall(target))
    model = said.get("model", "unknown")
    if kind == "cpu" and model == "unknown":
        model = said.get("mcpu", "unknown")
    if model == "unknown":
        return None
    try:
        device = find_device(model)
    except CostModelError:
        sms = cores if kind == "cpu" else 0
        device = Device(model, kind, said.get("arch", said.get("mcpu", "")), max(0, sms), clock_mhz=0.0)
    return Platform(device, "whole", device.sms, device.sms, {"tvm_target": target})
