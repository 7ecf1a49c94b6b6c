"""A runner that measures nothing twice: each measurement is on disk before the next one is made."""

from collections.abc import Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.collector.runners._base import Runner
from costmodel.records import Candidate, Measurement, Platform, SharedRecordStore, Workload, measurement_key

if TYPE_CHECKING:
    from costmodel.spaces import SearchSpace


class RecordedRunner(Runner):
    """Measures with another runner what a record store does not hold, and serves what it holds.

    Several processes may use one store. A process that is killed loses the measurement in flight.

    Args:
        runner: What measures; it stays open.
        path: The store; its name ends in ``.jsonl``. Made if it is not there.

    Raises:
        CostModelError: The store cannot be opened, or is damaged before its last line.
    """

    def __init__(self, runner: Runner, path: Path) -> None:
        self._runner, self._store = runner, SharedRecordStore(path)
        self._store.refresh()

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
        """What is stored of each candidate; the rest is built together, measured and stored one by one."""
        missing = [each for each in candidates if not self._known(each, platform, visit)]
        self._runner.prefetch(missing)
        return [self._measured(candidate, platform, visit) for candidate in candidates]

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Let the other runner prepare them."""
        self._runner.prefetch(candidates)

    def _known(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement | None:
        """What is stored: measured alone, or else beside others where the other runner measures so too."""
        found = self._store.get(measurement_key(candidate, platform, visit))
        if found is None and self._runner.alone is not self._runner:
            found = self._store.get(measurement_key(candidate, platform, visit, co_run=True))
        return found

    def _measured(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        if (known := self._known(candidate, platform, visit)) is not None:
            return known
        (measured,) = self._runner.measure([candidate], platform, visit=visit)
        self._store.add([measured])
        return measured
