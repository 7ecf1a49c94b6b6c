"""A runner around another one."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from typing import TYPE_CHECKING

from costmodel.collector.runners._base import Runner
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Platform
from costmodel.records._workload import Workload

if TYPE_CHECKING:
    from costmodel.search.spaces._base import SearchSpace


class WrappedRunner(Runner):
    """Forwards to another runner, except for what a subclass overrides.

    Args:
        runner: The other runner. It is not closed.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    @property
    def description(self) -> str:
        """Description of the other runner."""
        return self._runner.description

    @property
    def budgets(self) -> tuple[int, ...]:
        """Budgets of the other runner."""
        return self._runner.budgets

    @property
    def in_flight(self) -> int:
        """Number of candidates that the other runner works on at once."""
        return self._runner.in_flight

    @property
    def repeats(self) -> bool:
        """Whether the other runner can measure a kernel again."""
        return self._runner.repeats

    @property
    def has_neighbours(self) -> bool:
        """Whether others may run on the device during a measurement of the other runner."""
        return self._runner.has_neighbours

    @property
    def alone(self) -> Runner:
        """Return the same wrapper of the other runner without lanes."""
        if (alone := self._runner.alone) is self._runner:
            return self
        other = copy(self)
        other._runner = alone
        return other

    def platform(self, sms: int | None = None) -> Platform:
        """Return a platform of the other runner."""
        return self._runner.platform(sms)

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        """Return the sources of the other runner."""
        return self._runner.sources(workload)

    def space(
        self,
        workload: Workload | str,
        platforms: Sequence[Platform],
        *,
        source: str | None = None,
    ) -> "SearchSpace":
        """Return a space of the other runner."""
        return self._runner.space(workload, platforms, source=source)

    def known_latencies(
        self, workload: Workload | str, *, sources: Collection[str] | None = None
    ) -> Mapping[int, Mapping[str, float]] | None:
        """Return the latencies that the other runner knows without measuring."""
        return self._runner.known_latencies(workload, sources=sources)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure with the other runner."""
        return self._runner.measure(candidates, platform, visit=visit)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Let the other runner prepare the candidates."""
        self._runner.prefetch(candidates)
