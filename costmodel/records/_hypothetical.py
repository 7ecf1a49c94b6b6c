"""Hypothetical devices, one or a sweep: a known one with other SMs, clocks, bandwidth, cache or rates."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, prod
from numbers import Real
from typing import Any

import msgspec

from costmodel.errors import CostModelError, did_you_mean, shorten
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
_FORM = re.compile(r"(\w+)=([^:]+):([^:]+):([^:]+)")
# Hypothetical devices of a sweep, or of several together.
_MOST_SWEPT = 1000


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
    found = device if isinstance(device, Device) else find_device(device)
    base = found.of if isinstance(found, HypotheticalDevice) else found
    if base.kind == "cpu":
        raise CostModelError(f"A hypothetical device must be made of a GPU, but got {base.name}.")
    earlier = {name: own for name in QUANTITIES if (own := getattr(found, name)) != getattr(base, name)}
    named = earlier | {find_quantity(name): value for name, value in changes.items()}
    if not named:
        raise CostModelError(f"At least one of {', '.join(QUANTITIES)} must be changed, but got nothing.")
    values = {name: _check_value(base, name, value) for name, value in named.items()}
    said = ", ".join(_SAID[name].format(values[name]) for name in QUANTITIES if name in values)
    fields: dict[str, Any] = {**msgspec.structs.asdict(base), **values}
    fields["name"] = f"{base.name} with {said} (hypothetical)"
    return HypotheticalDevice(**fields, of=base)


def find_quantity(name: str) -> str:
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


def _check_value(base: Device, name: str, value: float) -> float:
    own = getattr(base, name)
    if not own:
        raise CostModelError(
            f"{name} of {base.name} must be known to be changed, but it is unknown. Describe the device "
            "with it."
        )
    whole = isinstance(own, int)
    is_in_range = isinstance(value, Real) and 0 < value <= _MOST_TIMES * own
    if not is_in_range or (whole and value != int(value)):
        kind = "a whole number" if whole else "a number"
        raise CostModelError(
            f"{name} must be {kind} above 0 and at most {_MOST_TIMES:,} times the {own:,} of {base.name}, "
            f"but got {shorten(value)}."
        )
    return int(value) if whole else float(value)


@dataclass(frozen=True)
class Sweep:
    """Values of one quantity of a hypothetical device.

    Attributes:
        name: The quantity: a field of ``Device`` (see ``hypothetical``).
        values: Its values, in its unit.
    """

    name: str
    values: tuple[float, ...]

    @classmethod
    def parse(cls, text: str) -> "Sweep":
        """Parse a sweep ``NAME=FIRST:LAST:STEP``; LAST is included if a step reaches it.

        Raises:
            CostModelError: The text has another form, the step is not positive, there is no value or more
                than 1,000, or the quantity is unknown.

        Example:
            >>> Sweep.parse("sms=64:112:16").values
            (64.0, 80.0, 96.0, 112.0)
        """
        found = _FORM.fullmatch(text.strip())
        try:
            first, last, step = (float(each) for each in found.groups()[1:]) if found else (0.0, 0.0, 0.0)
            count = floor((last - first) / step + 1e-9) + 1 if 0 < step < float("inf") else 0
        except (ValueError, OverflowError):
            count = 0
        if not found or not 1 <= count <= _MOST_SWEPT:
            raise CostModelError(
                f"A sweep must be NAME=FIRST:LAST:STEP with 1 to {_MOST_SWEPT:,} values (sms=64:256:16), "
                f"but got {text!r}."
            )
        return cls(find_quantity(found[1]), tuple(first + i * step for i in range(count)))


def sweep_devices(
    device: Device | str, sweeps: Sequence[Sweep]
) -> Iterator[tuple[dict[str, float], HypotheticalDevice]]:
    """Yield each combination of values, varying the first sweep fastest, and its hypothetical device.

    Raises:
        CostModelError: There are not one or two sweeps, both are of the same quantity, they have more than
            1,000 devices, or a device cannot be made (see ``hypothetical``).
    """
    names = [sweep.name for sweep in sweeps]
    total = prod(len(sweep.values) for sweep in sweeps)
    if len(sweeps) not in (1, 2) or len(set(names)) < len(names) or total > _MOST_SWEPT:
        raise CostModelError(
            f"Sweeps must be of one quantity or two distinct ones, and of at most {_MOST_SWEPT:,} devices "
            f"together, but got {', '.join(names) or 'none'} of {total:,}."
        )
    for values in product(*(sweep.values for sweep in reversed(sweeps))):
        changes = dict(zip(names, reversed(values), strict=True))
        yield changes, hypothetical(device, **changes)
