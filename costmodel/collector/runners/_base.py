"""The runner contract, and what a runner is asked for."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from costmodel.errors import CostModelError
from costmodel.kernels._machine_code import MachineCode
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement, measurement_key
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.search.spaces._base import SearchSpace


class CannotGoOnError(CostModelError):
    """Measuring must end; what was measured before counts."""


class Request(msgspec.Struct, frozen=True):
    """One measurement to make.

    Attributes:
        candidate: Candidate to measure.
        platform: Platform to measure on.
        visit: 0 for the first time, 1 for the A/A repeat.
        partitions: Number of equal partitions of the device that measure at once; 1 measures alone.
        lane: Whether to measure on a lane, while other processes measure on the other SMs.
    """

    candidate: Candidate
    platform: Platform
    visit: int = 0
    partitions: int = 1
    lane: bool = False

    @property
    def key(self) -> str:
        """Key of the requested measurement."""
        return measurement_key(
            self.candidate, self.platform, self.visit, co_run=self.partitions > 1 or self.lane_sms > 0
        )

    @property
    def lane_sms(self) -> int:
        """Number of SMs of the lane; 0 if the measurement has the whole device to itself."""
        granted, total = self.platform.sms_granted, self.platform.device.sms
        return granted if self.lane and granted < total else 0

    @property
    def lanes(self) -> list[range]:
        """Return the SM ranges that can be measured on, any of which will do; none for the whole device."""
        sms, total = self.lane_sms, self.platform.device.sms
        return [range(start, start + sms) for start in range(0, total - sms + 1, sms)] if sms else []


class Runner(ABC):
    """Measures candidates. A search uses only this interface and cannot tell a GPU from a replay.

    A runner is a context manager: leaving it ends its worker processes.
    """

    @property
    @abstractmethod
    def description(self) -> str:
        """Sentence for the user: what measures, or that recorded measurements are served."""

    @abstractmethod
    def platform(self, sms: int | None = None) -> Platform:
        """Return the platform with ``sms`` SMs (threads on a CPU). Default: the whole device.

        Raises:
            CostModelError: If this number of SMs cannot be granted.
        """

    @property
    @abstractmethod
    def budgets(self) -> tuple[int, ...]:
        """Default SM budgets to tune for, as granted, in ascending order.

        A replay has the recorded budgets; a device has those of the usual budgets that it can grant.
        """

    @property
    def in_flight(self) -> int:
        """Number of candidates that the runner works on at once; 1 if nothing has to be built."""
        return 1

    @property
    def repeats(self) -> bool:
        """Whether the runner can measure a kernel again at any time, as a device can."""
        return True

    @property
    def has_neighbours(self) -> bool:
        """Whether others may run on the device during a measurement; ``co_runners`` records it."""
        return False

    @property
    def alone(self) -> "Runner":
        """Return a runner of the same kernels that has the device to itself; itself unless it has lanes."""
        return self

    @abstractmethod
    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        """Return the names of the sources whose kernels of a workload can be measured.

        Raises:
            CostModelError: If the workload has no kernels.
        """

    @abstractmethod
    def space(
        self,
        workload: Workload | str,
        platforms: Sequence[Platform],
        *,
        source: str | None = None,
    ) -> "SearchSpace":
        """Return the space of a workload's kernels that can be measured on all of these platforms.

        A replay has the recorded kernels; a device has all kernels that a source makes.

        Args:
            workload: The workload, or its name.
            platforms: One or more platforms of this runner.
            source: Name of the kernel source. Default: the first source that has kernels of the workload.

        Raises:
            CostModelError: If the workload has no kernels.
        """

    def known_latencies(
        self, workload: Workload | str, *, sources: Collection[str] | None = None
    ) -> Mapping[int, Mapping[str, float]] | None:
        """Return seconds of every working kernel, by granted SMs and then by candidate id.

        Returns None if latencies are known only by measuring, as on a device.

        Args:
            workload: The workload, or its name.
            sources: Names of the sources whose kernels count. Default: all.
        """
        return None

    def recorded(self, workload: Workload) -> list[Measurement]:
        """Return measurements of a workload on this device that were made before and are at hand.

        None by default; a replay has ``known_latencies`` instead, which a search must not be told.
        """
        return []

    def machine_code(self, candidates: Sequence[Candidate]) -> list[MachineCode | None]:
        """Return what a compiler made of each candidate, in order, without measuring any.

        None for one that cannot be built, and for all where kernels have no machine code that can be read.
        """
        return [None] * len(candidates)

    @abstractmethod
    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure each candidate on ``platform``; return one measurement each, in order, with failures.

        Raises:
            CannotGoOnError: If nothing may be measured any more; a search ends with the trials made so far.
        """

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences on how measuring went, for the answer of a search; none where all was ordinary."""
        return ()

    def tell_waits(self, tell: Callable[[str], None]) -> None:  # noqa: B027 (most wait for nothing)
        """Call ``tell`` from now on with what measuring waits for, and with an empty text when it goes on."""

    def prefetch(self, candidates: Sequence[Candidate]) -> None:  # noqa: B027 (nothing to prepare is fine)
        """Start preparing candidates that will be measured soon, and return immediately."""

    def close(self) -> None:  # noqa: B027 (nothing to close is fine)
        """End worker processes and release resources."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
