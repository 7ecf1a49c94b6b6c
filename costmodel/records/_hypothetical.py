"""Hypothetical devices: a known one with other SMs, clocks, bandwidth, cache or rates."""

from math import isfinite
from typing import Any

import msgspec

from costmodel.errors import CostModelError, did_you_mean
from costmodel.records._device_table import find_device
from costmodel.records._platform import Device

# Quantities that can be changed: fields of ``Device``, with their wording in the device's name.
_SAID = {
    "sms": "{:g} SMs",
    "clock_mhz": "{:g} MHz",
    "bandwidth_gb_s": "{:g} GB/s",
    "l2_bytes": "{:g} bytes of L2",
    "shared_bytes_per_sm": "{:g} bytes of shared memory an SM",
    "registers_per_sm": "{:g} registers an SM",
    "max_threads_per_sm": "{:g} threads an SM",
    "max_blocks_per_sm": "{:g} blocks an SM",
    "fp32_lanes_per_sm": "{:g} lanes an SM",
    "tensor_flops_per_sm_clock": "{:g} Tensor flops an SM and clock",
}
QUANTITIES = tuple(_SAID)
# Larger factors are taken as typing errors.
_MOST_TIMES = 1000


class HypotheticalDevice(Device, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A device that does not exist, so that it has no measurements.

    Attributes:
        of: The real device that it is based on.
    """

    of: Device


def hypothetical(device: Device | str, **changes: float) -> HypotheticalDevice:
    """Make a hypothetical GPU from a known one by changing some of its quantities.

    All other quantities keep their values. For example, ``sms=64`` alone keeps the bandwidth and the L2 cache
    of the whole device, as on 64 of its SMs in a green context.

    Args:
        device: A GPU, or its name as listed by ``costmodel devices list``. The changes of a hypothetical GPU
            are kept, and these are added.
        changes: New values by field name of ``Device``, or an unambiguous prefix of the name: ``sms``;
            ``clock_mhz``, the highest of an SM; ``bandwidth_gb_s`` of device memory, in 1e9 bytes per second;
            ``l2_bytes``; ``shared_bytes_per_sm``; ``registers_per_sm``, of 32 bits; ``max_threads_per_sm``;
            ``max_blocks_per_sm``; ``fp32_lanes_per_sm``; ``tensor_flops_per_sm_clock``, in float16.

    Raises:
        CostModelError: The device is a CPU, a name is unknown, nothing is changed, a value is not positive,
            not an integer where one is required, or more than 1,000 times the device's own, or the device's
            own value is unknown.

    Example:
        >>> hypothetical("H100 SXM", sms=160, bandwidth=4800).name
        'NVIDIA H100 80GB HBM3 with 160 SMs, 4800 GB/s (hypothetical)'
    """
    found = find_device(device) if isinstance(device, str) else device
    base = found.of if isinstance(found, HypotheticalDevice) else found
    if base.kind == "cpu":
        raise CostModelError(f"A hypothetical device must be made of a GPU, but got {base.name}.")
    earlier = {name: own for name in QUANTITIES if (own := getattr(found, name)) != getattr(base, name)}
    named = earlier | {quantity(name): value for name, value in changes.items()}
    if not named:
        raise CostModelError(f"At least one of {', '.join(QUANTITIES)} must be changed, but got nothing.")
    values = {name: _checked(base, name, value) for name, value in named.items()}
    said = ", ".join(_SAID[name].format(values[name]) for name in QUANTITIES if name in values)
    fields: dict[str, Any] = {**msgspec.structs.asdict(base), **values}
    fields["name"] = f"{base.name} with {said} (hypothetical)"
    return HypotheticalDevice(**fields, of=base)


def quantity(name: str) -> str:
    """Return the field of ``Device`` with this name or unambiguous prefix.

    Raises:
        CostModelError: No field matches, or several do.
    """
    begun = [name] if name in QUANTITIES else [each for each in QUANTITIES if each.startswith(name) and name]
    if len(begun) != 1:
        several = f", which could be {' or '.join(begun)}" if begun else ""
        raise CostModelError(
            f"A quantity must be one of {', '.join(QUANTITIES)}, or an unambiguous prefix of one, "
            f"but got {name!r}{several}.{did_you_mean(name, QUANTITIES)}"
        )
    return begun[0]


def _checked(base: Device, name: str, value: float) -> float:
    own = getattr(base, name)
    if not own:
        raise CostModelError(
            f"{name} of {base.name} must be known to be changed, but it is unknown. Describe the device "
            "with it."
        )
    whole = isinstance(own, int)
    if not (isfinite(value) and 0 < value <= _MOST_TIMES * own) or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise CostModelError(
            f"{name} must be {kind} above 0 and at most {_MOST_TIMES:,} times the {own:,} of {base.name}, "
            f"but got {value}."
        )
    return int(value) if whole else float(value)
