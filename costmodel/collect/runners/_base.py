"""The runner contract, and what a runner is asked for."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import msgspec

from costmodel.records import Candidate, Measurement, Platform, measurement_key


class Request(msgspec.Struct, frozen=True):
    """One measurement to make.

    Attributes:
        candidate: What to measure.
        platform: Where.
        visit: 0 for the first time, 1 for the A/A repeat.
        partitions: Equal partitions of the device that measure at once; 1 measures alone.
    """

    candidate: Candidate
    platform: Platform
    visit: int = 0
    partitions: int = 1

    @property
    def key(self) -> str:
        """Key of the measurement that it asks for."""
        return measurement_key(self.candidate, self.platform, self.visit, co_run=self.partitions > 1)


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
