"""The runner contract, and what a runner is asked for."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from costmodel.records import Candidate, Measurement, Platform, Workload, measurement_key

if TYPE_CHECKING:
    from costmodel.spaces import SearchSpace


class Request(msgspec.Struct, frozen=True):
    """One measurement to make.

    Attributes:
        candidate: What to measure.
        platform: Where.
        visit: 0 for the first time, 1 for the A/A repeat.
        partitions: Equal partitions of the device that measure at once; 1 measures alone.
        lane: Whether to measure on SMs of its own, while other processes measure on the others.
    """

    candidate: Candidate
    platform: Platform
    visit: int = 0
    partitions: int = 1
    lane: bool = False

    @property
    def key(self) -> str:
        """Key of the measurement that it asks for."""
        return measurement_key(
            self.candidate, self.platform, self.visit, co_run=self.partitions > 1 or self.lane_sms > 0
        )

    @property
    def lane_sms(self) -> int:
        """SMs of its lane; 0 where it has the device to itself, as for a whole device it must."""
        granted, total = self.platform.sms_granted, self.platform.device.sms
        return granted if self.lane and granted < total else 0

    @property
    def lanes(self) -> list[range]:
        """The SMs that it may be measured on, any of which will do; none where it has the device."""
        sms, total = self.lane_sms, self.platform.device.sms
        return [range(start, start + sms) for start in range(0, total - sms + 1, sms)] if sms else []


class Runner(ABC):
    """Measures candidates. Search sees this class and cannot tell a GPU from a replay.

    A runner is a context manager: leaving it ends its worker processes.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """One sentence for the user: what measures, or that recorded measurements are served."""

    @abstractmethod
    def platform(self, sms: int | None = None) -> Platform:
        """The platform with ``sms`` SMs (threads on a CPU), or the whole device.

        Raises:
            CostModelError: That many cannot be granted here.
        """

    @property
    @abstractmethod
    def budgets(self) -> tuple[int, ...]:
        """The SM budgets to tune for unless told otherwise, as granted, smallest first.

        A replay has those that were recorded, a device those that it can grant among the usual ones.
        """

    @property
    def in_flight(self) -> int:
        """Candidates that it works on at once: 1 where nothing has to be built."""
        return 1

    @property
    def repeats(self) -> bool:
        """Whether it can measure a kernel once more at any time, as a device can."""
        return True

    @property
    def has_neighbours(self) -> bool:
        """Whether others may run on the device while it measures; ``co_runners`` of a measurement say so."""
        return False

    @property
    def alone(self) -> "Runner":
        """What measures the same kernels with nothing else on the device: itself unless it has lanes."""
        return self

    @abstractmethod
    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        """Names of the sources whose kernels of a workload can be measured.

        Raises:
            CostModelError: There are none of this workload.
        """

    @abstractmethod
    def space(
        self,
        workload: Workload | str,
        platforms: Sequence[Platform],
        *,
        source: str | None = None,
    ) -> "SearchSpace":
        """The kernels of a workload that can be measured on all of these platforms.

        A replay has those that were recorded, a device all that a kernel source makes.

        Args:
            workload: The workload, or its name.
            platforms: One or more platforms of this runner.
            source: Name of the kernels' source; the first that has any if None.

        Raises:
            CostModelError: There are none of this workload.
        """

    def known_latencies(
        self, workload: Workload | str, *, sources: Collection[str] | None = None
    ) -> Mapping[int, Mapping[str, float]] | None:
        """Seconds of every kernel that works, by granted SMs and then by the candidate's id.

        None where nothing is known without measuring, as on a device.

        Args:
            workload: The workload, or its name.
            sources: Names of the sources whose kernels count; all if None.
        """
        return None

    @abstractmethod
    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure each candidate on ``platform``: one measurement each, in order, failures included."""

    def prefetch(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027 (nothing to prepare is fine)
        """Start preparing candidates that will be measured soon, and return at once."""

    def close(self) -> None:  # noqa: B027 (nothing to close is fine)
        """End worker processes and free what the runner holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
