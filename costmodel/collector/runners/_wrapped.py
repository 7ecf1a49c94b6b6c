"""Runners around another one: one that measures nothing twice, and one that measures beside a service."""

from collections.abc import Callable, Collection, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._watched_service import WatchedService
from costmodel.kernels._machine_code import MachineCode
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS, Measurement, Outcome, measurement_key
from costmodel.records._platform import Platform
from costmodel.records._store import SharedRecordStore
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
    def remarks(self) -> tuple[str, ...]:
        """Remarks of the other runner."""
        return self._runner.remarks

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

    def recorded(self, workload: Workload) -> list[Measurement]:
        """Return what the other runner has at hand."""
        return self._runner.recorded(workload)

    def machine_code(self, candidates: Sequence[Candidate]) -> list[MachineCode | None]:
        """Let the other runner compile the candidates."""
        return self._runner.machine_code(candidates)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure with the other runner."""
        return self._runner.measure(candidates, platform, visit=visit)

    def tell_waits(self, tell: Callable[[str], None]) -> None:
        """Let the other runner tell what it waits for."""
        self._runner.tell_waits(tell)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Let the other runner prepare the candidates."""
        self._runner.prefetch(candidates)


class RecordedRunner(WrappedRunner):
    """Serves the measurements in a record store, and measures the missing ones with another runner.

    Several processes may use one store. A process that is killed loses only the measurement in progress.

    Args:
        runner: Runner that measures. It is not closed.
        path: Path of the store, ending in ``.jsonl`` or ``.db``, or the URL of a database. Created if
            missing.

    Raises:
        CostModelError: If the store cannot be opened, or is damaged before its last line.
    """

    def __init__(self, runner: Runner, path: Path | str) -> None:
        super().__init__(runner)
        self._store = SharedRecordStore(path)
        self._store.refresh()

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Return stored measurements; build the missing candidates together, then measure and store each."""
        missing = [each for each in candidates if not self._known(each, platform, visit)]
        self._runner.prefetch(missing)
        return [self._measured(candidate, platform, visit) for candidate in candidates]

    def recorded(self, workload: Workload) -> list[Measurement]:
        """Return what the store has of the workload on this device."""
        device = self.platform().device
        return [
            each
            for each in self._store.measurements
            if each.candidate.workload == workload and each.platform.device == device
        ]

    def _known(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement | None:
        """What is stored: measured alone, or else beside others where the other runner measures so too."""
        found = self._store.get(measurement_key(candidate, platform, visit))
        if found is None and self._runner.has_neighbours:
            found = self._store.get(measurement_key(candidate, platform, visit, co_run=True))
        return found

    def _measured(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        if (known := self._known(candidate, platform, visit)) is not None:
            return known
        (measured,) = self._runner.measure([candidate], platform, visit=visit)
        if not measured.is_passing:  # the next run tries again
            self._store.add([measured])
        return measured


_NOT_RUN = (Outcome.COMPILE_ERROR, Outcome.INVALID_CONFIG)


class WatchedRunner(WrappedRunner):
    """Runner that measures with another runner, one kernel at a time, as a service allows.

    Kernels are not built ahead, so that the runner is idle while the service is observed alone.

    Args:
        runner: The runner that measures; it stays open.
        service: The service that runs alongside.
    """

    def __init__(self, runner: Runner, service: WatchedService) -> None:
        super().__init__(runner)
        self._service = service

    @property
    def description(self) -> str:
        """What measures, and that it does so beside a service."""
        lost = f"{100 * self._service.may_lose:g} %"
        return f"{super().description} Beside a service, whose p99 may rise by {lost}."

    @property
    def in_flight(self) -> int:
        """One at a time."""
        return 1

    @property
    def has_neighbours(self) -> bool:
        """The service is one."""
        return True

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the service lost meanwhile, and why measuring ended before its time."""
        return self._service.report.sentences

    def tell_waits(self, tell: Callable[[str], None]) -> None:
        """Tell pauses, in which the service makes up for what it lost."""
        self._service.tell = tell

    @property
    def alone(self) -> Runner:
        """This one: beside a service nothing is alone."""
        return self

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure candidates one at a time, and check the service after each.

        Measurements have ``UNKNOWN_CO_RUNNERS``, as kernels that run beside the service do not run alone.

        Raises:
            CannotGoOnError: The service slows down too much, or stopped reporting latencies.
        """
        measured: list[Measurement] = []
        for candidate in candidates:
            with self._service.burst():
                measured += self._runner.measure([candidate], platform, visit=visit)
        return [each if each.outcome in _NOT_RUN else _beside(each) for each in measured]

    def machine_code(self, candidates: Sequence[Candidate]) -> list[MachineCode | None]:
        """Nothing: a kernel is built when it is measured."""
        return [None] * len(candidates)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Nothing: a kernel is built when it is measured."""


def _beside(measurement: Measurement) -> Measurement:
    return replace(measurement, co_runners=UNKNOWN_CO_RUNNERS)
