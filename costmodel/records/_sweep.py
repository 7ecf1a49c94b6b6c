"""Sweeps over quantities of a hypothetical device."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import floor, prod

from costmodel.errors import CostModelError
from costmodel.records._hypothetical import HypotheticalDevice, hypothetical, quantity
from costmodel.records._platform import Device

_FORM = re.compile(r"(\w+)=([^:]+):([^:]+):([^:]+)")
# Hypothetical devices of a sweep, or of several together.
_MOST = 1000


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
        if not found or not 1 <= count <= _MOST:
            raise CostModelError(
                f"A sweep must be NAME=FIRST:LAST:STEP with 1 to {_MOST:,} values, such as sms=64:256:16, "
                f"but got {text!r}."
            )
        return cls(quantity(found[1]), tuple(first + i * step for i in range(count)))


def swept_devices(
    device: Device | str, sweeps: Sequence[Sweep]
) -> Iterator[tuple[dict[str, float], HypotheticalDevice]]:
    """Yield each combination of values, varying the first sweep fastest, and its hypothetical device.

    Raises:
        CostModelError: There are not one or two sweeps, both are of the same quantity, they have more than
            1,000 devices, or a device cannot be made (see ``hypothetical``).
    """
    names = [sweep.name for sweep in sweeps]
    total = prod(len(sweep.values) for sweep in sweeps)
    if len(sweeps) not in (1, 2) or len(set(names)) < len(names) or total > _MOST:
        raise CostModelError(
            f"Sweeps must be of one quantity or two distinct ones, and of at most {_MOST:,} devices "
            f"together, but got {', '.join(names) or 'none'} of {total:,}."
        )
    for values in product(*(sweep.values for sweep in reversed(sweeps))):
        changes = dict(zip(names, reversed(values), strict=True))
        yield changes, hypothetical(device, **changes)
