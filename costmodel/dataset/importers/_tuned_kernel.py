"""A kernel as Kernel Tuner knows it, and what its measurements are known by here."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import msgspec

from costmodel.dataset.sources._entry import EntryError, to_decision
from costmodel.records._candidate import Candidate, Config, Decision
from costmodel.records._identity import content_id
from costmodel.records._platform import Device, Platform, part_of
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
    major = re.match(r"sm_(\d+)\d", device.architecture)
    least, step = _GRANTED.get(min(int(major[1]), max(_GRANTED)), (1, 1)) if major else (1, 1)
    return min(device.sms, least + step * max(0, -(-(requested - least) // step)))
