"""A kernel as Kernel Tuner knows it, and what its measurements are known by here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from costmodel.dataset.importers._entry import EntryError, decision
from costmodel.errors import CostModelError
from costmodel.records import (
    Candidate,
    Config,
    Decision,
    Device,
    DeviceKind,
    Platform,
    Workload,
    content_id,
    find_device,
    part_of,
)

# The parameter by which Kernel Tuner runs a kernel in a green context of so many percent of the SMs.
SM_PERCENTAGE = "cuda_sm_percentage"
_AMD = re.compile(r"AMD|Radeon|Instinct|\bMI\d|\bW\d{4}\b")
# Fewest SMs of a green context and the step from there, by the major number of the architecture. Source: CUDA
# driver API, cuDevSmResourceSplitByCount; what is larger than the last has its numbers.
_GRANTED = {6: (1, 1), 7: (2, 2), 8: (4, 2), 9: (8, 8)}


@dataclass(frozen=True)
class TunedKernel:
    """A kernel with its parameters, on the platform that is tuned.

    How many percent of the SMs a kernel gets is no parameter of it, but where it runs.

    Attributes:
        workload: The kernel with its problem size.
        space: Name of the space that configs are chosen from.
        parameters: Values of each parameter, in the order in which Kernel Tuner lists them.
        platform: Where it runs, unless a config says which part of it.
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
        """The kernel of this name.

        Its kind carries a hash of its parameters' names and fixed values: two kernels of one name in two
        suites are not the same. Values that vary do not enter, as they may be restricted on a device.

        Raises:
            ValueError: It is to run on a share of the SMs of a device that has an unknown number of them.
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
        """The values of all parameters, and none beside, as a config has them.

        Raises:
            EntryError: One is not among those that the parameter has.
        """
        decisions = {name: decision(values[name]) for name in self.parameters}
        if any(value not in self.parameters[name] for name, value in decisions.items()):
            raise EntryError("a parameter's value must be among those of tune_params")
        return decisions

    def candidate(self, values: Mapping[str, Any]) -> Candidate:
        """The candidate of these values, the share of the SMs left out.

        Raises:
            EntryError: One is not among those that the parameter has.
        """
        decisions = self.decisions(values)
        decisions.pop(SM_PERCENTAGE, None)
        return Candidate(self.workload, self.space, Config(decisions))

    def platform_of(self, values: Mapping[str, Any]) -> Platform:
        """Where a config with these values runs.

        Raises:
            EntryError: The share of the SMs is none.
        """
        if SM_PERCENTAGE not in self.parameters:
            return self.platform
        percentage = values[SM_PERCENTAGE]
        if percentage not in self._parts:
            self._parts[percentage] = _share_of(self.platform, percentage)
        return self._parts[percentage]


def tuned_device(name: str) -> Device:
    """The device of this name in the table of devices; else the name is all that is known."""
    try:
        return find_device(name)
    except CostModelError:
        kind: DeviceKind = "hip" if _AMD.search(name) else "cuda"
        return Device(name, kind, architecture="", sms=0, clock_mhz=0.0)


def _share_of(whole: Platform, percentage: float) -> Platform:
    """A green context of at least so many percent of a device's SMs, as Kernel Tuner asks for it."""
    if not 0 < percentage <= 100:
        raise EntryError(f"{SM_PERCENTAGE} must be above 0 and at most 100")
    device = whole.device
    requested = max(1, round(device.sms * percentage / 100))
    part = part_of(device, _granted(device, requested))
    return msgspec.structs.replace(part, sms_requested=requested, software=whole.software)


def _granted(device: Device, requested: int) -> int:
    """SMs that the driver grants where so many are asked for."""
    major = re.match(r"sm_(\d+)\d", device.architecture)
    least, step = _GRANTED.get(min(int(major[1]), max(_GRANTED)), (1, 1)) if major else (1, 1)
    return min(device.sms, least + step * max(0, -(-(requested - least) // step)))
