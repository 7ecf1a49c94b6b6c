"""What kernels of a workload take on so many SMs of a device, recorded or predicted."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records import Device, Workload


@dataclass(frozen=True)
class KernelLatency:
    """What one kernel takes on one number of SMs.

    Attributes:
        candidate_id: The kernel.
        latency_s: Seconds.
        low_s: Lower end of the 90 % interval of a prediction; the latency where there is none.
        high_s: Upper end.
    """

    candidate_id: str
    latency_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class KernelTable:
    """Kernels of one workload over SMs of one device; the arrays of seconds are ``(kernels, budgets)``.

    Attributes:
        candidate_ids: The kernels.
        sms: ``(budgets,)`` ascending.
        latency_s: NaN where nothing is known, inf where a kernel failed.
        origin: ``recorded`` or ``predicted``.
        low_s: Lower ends of 90 % intervals; None where there are none.
        high_s: Upper ends.
    """

    candidate_ids: tuple[str, ...]
    sms: tuple[int, ...]
    latency_s: FloatArray
    origin: str
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None

    def best(self, sms: int, chosen_for: int | None = None) -> KernelLatency | None:
        """The fastest kernel on so many SMs, or what the one that is the fastest on others takes there.

        Between two numbers of SMs the log of a latency is linear in the log of the SMs.

        Args:
            sms: SMs that it runs on.
            chosen_for: SMs that it is the fastest on, of the kernels that are known on both.

        Returns:
            None where no kernel is known on as many SMs.
        """
        here = _between(self.latency_s, self.sms, sms)
        there = here if chosen_for is None else _between(self.latency_s, self.sms, chosen_for)
        known = np.isfinite(here) & np.isfinite(there)
        if not known.any():
            return None
        kernel = int(np.argmin(np.where(known, there, np.inf)))
        latency = float(here[kernel])
        low, high = (
            float(_between(each, self.sms, sms)[kernel]) if each is not None else latency
            for each in (self.low_s, self.high_s)
        )
        return KernelLatency(self.candidate_ids[kernel], latency, low, high)


class Latencies(ABC):
    """Where latencies of kernels come from.

    Attributes:
        device: The device that the kernels run on.
    """

    device: Device

    @abstractmethod
    def kernels(self, workload: Workload) -> KernelTable | None:
        """Kernels of a workload; None where none is known."""

    def on_device(self, sms: int | None) -> int:
        """So many SMs of the device, all of them if None.

        Raises:
            CostModelError: The device does not have as many.
        """
        found = self.device.sms if sms is None else sms
        if not 1 <= found <= self.device.sms:
            raise CostModelError(
                f"SMs must be from 1 to the {self.device.sms} of {self.device.name}, but got {found}."
            )
        return found


class FirstKnown(Latencies):
    """Those of the first of several that knows a workload, such as recorded ones, then predicted ones."""

    def __init__(self, *sources: Latencies) -> None:
        self.sources = sources
        self.device = sources[0].device

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``."""
        found = (source.kernels(workload) for source in self.sources)
        return next((table for table in found if table is not None), None)


def _between(table: FloatArray, sms: tuple[int, ...], asked: int) -> FloatArray:
    """``(kernels,)`` seconds on so many SMs; NaN outside of what is known."""
    if asked in sms:
        column: FloatArray = table[:, sms.index(asked)]
        return column
    right = int(np.searchsorted(sms, asked))
    if right in (0, len(sms)):
        return np.full(len(table), np.nan)
    near, far = np.log(table[:, right - 1]), np.log(table[:, right])
    share = np.log(asked / sms[right - 1]) / np.log(sms[right] / sms[right - 1])
    return np.asarray(np.exp((1.0 - share) * near + share * far))
