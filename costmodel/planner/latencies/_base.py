"""Interface for latencies of a workload's kernels by number of SMs, recorded or predicted."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records._platform import Device
from costmodel.records._workload import Workload


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
    """Latencies of the kernels of one workload by SM budget of one device; arrays are ``(kernels, budgets)``.

    Attributes:
        candidate_ids: Ids of the kernels.
        sms: ``(budgets,)`` SM budgets, ascending.
        latency_s: Latencies in seconds; NaN if unknown, inf if the kernel failed.
        origin: ``recorded`` or ``predicted``.
        low_s: Lower ends of 90% intervals, in seconds; None if there are no intervals.
        high_s: Upper ends of the intervals, in seconds.
    """

    candidate_ids: tuple[str, ...]
    sms: tuple[int, ...]
    latency_s: FloatArray
    origin: str
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None

    def best(self, sms: int, chosen_for: int | None = None) -> KernelLatency | None:
        """Return the fastest kernel on this number of SMs, or the kernel that is fastest on another number.

        Between two numbers of SMs, the log of a latency is interpolated linearly in the log of the SMs.

        Args:
            sms: Number of SMs that the kernel runs on.
            chosen_for: Number of SMs for which the fastest kernel is chosen, among the kernels known on both.
                Default: ``sms``.

        Returns:
            The kernel with its latency; None if no kernel is known on this number of SMs.
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
    """Source of kernel latencies.

    Attributes:
        device: Device that the kernels run on.
    """

    device: Device

    @abstractmethod
    def kernels(self, workload: Workload) -> KernelTable | None:
        """Return the kernels of a workload; None if none is known."""

    def on_device(self, sms: int | None) -> int:
        """Return this number of SMs, or all SMs of the device if None.

        Raises:
            CostModelError: If the device has fewer SMs.
        """
        found = self.device.sms if sms is None else sms
        if not 1 <= found <= self.device.sms:
            raise CostModelError(
                f"SMs must be from 1 to the {self.device.sms} of {self.device.name}, but got {found}."
            )
        return found


class FirstKnown(Latencies):
    """Latencies from the first of several sources that knows a workload, such as recorded, then predicted."""

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
