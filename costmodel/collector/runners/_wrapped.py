"""A runner around another one."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from costmodel.collector.runners._base import Runner
from costmodel.records import Candidate, Measurement, Platform, Workload

if TYPE_CHECKING:
    from costmodel.spaces import SearchSpace


class WrappedRunner(Runner):
    """Does what another runner does, but for what a subclass changes.

    Args:
        runner: The other one; it stays open.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def description(self) -> str:
        """What measures."""
        return self._runner.description

    @property
    def budgets(self) -> tuple[int, ...]:
        """Those of the other runner."""
        return self._runner.budgets

    @property
    def in_flight(self) -> int:
        """As many as the other runner works on."""
        return self._runner.in_flight

    @property
    def repeats(self) -> bool:
        """Whether the other runner can."""
        return self._runner.repeats

    @property
    def has_neighbours(self) -> bool:
        """Whether others run beside the other runner."""
        return self._runner.has_neighbours

    @property
    def alone(self) -> Runner:
        """The same with the other runner alone."""
        if (alone := self._runner.alone) is self._runner:
            return self
        other = copy(self)
        other._runner = alone
        return other

    def platform(self, sms: int | None = None) -> Platform:
        """A platform of the other runner."""
        return self._runner.platform(sms)

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        """Those of the other runner."""
        return self._runner.sources(workload)

    def space(
        self,
        workload: Workload | str,
        platforms: Sequence[Platform],
        *,
        source: str | None = None,
    ) -> "SearchSpace":
        """A space of the other runner."""
        return self._runner.space(workload, platforms, source=source)

    def known_latencies(
        self, workload: Workload | str, *, sources: Collection[str] | None = None
    ) -> Mapping[int, Mapping[str, float]] | None:
        """What the other runner knows without measuring."""
        return self._runner.known_latencies(workload, sources=sources)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure with the other runner."""
        return self._runner.measure(candidates, platform, visit=visit)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Let the other runner prepare them."""
        self._runner.prefetch(candidates)
