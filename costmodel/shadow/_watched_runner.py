"""A runner that measures one kernel at a time, and looks at a service after each."""

from collections.abc import Sequence

from msgspec.structs import replace

from costmodel.collector import Runner, WrappedRunner
from costmodel.records import UNKNOWN_CO_RUNNERS, Candidate, Measurement, Outcome, Platform
from costmodel.shadow._watched_service import WatchedService

_NOT_RUN = (Outcome.COMPILE_ERROR, Outcome.INVALID_CONFIG)


class WatchedRunner(WrappedRunner):
    """Measures with another runner, kernel by kernel, as a service allows.

    Nothing is built ahead: while the watch looks at the service alone, nothing of the runner is at work.

    Args:
        runner: What measures; it stays open.
        service: What runs beside it.
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
    def alone(self) -> Runner:
        """This one: beside a service nothing is alone."""
        return self

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Measure one after the other, each followed by a look at the service.

        What ran beside the service has ``UNKNOWN_CO_RUNNERS``: it is not what a kernel takes alone.

        Raises:
            CannotGoOnError: The service loses too much, or has gone silent.
        """
        measured: list[Measurement] = []
        for candidate in candidates:
            with self._service.burst():
                measured += self._runner.measure([candidate], platform, visit=visit)
        return [each if each.outcome in _NOT_RUN else _beside(each) for each in measured]

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Nothing: a kernel is built when it is measured."""


def _beside(measurement: Measurement) -> Measurement:
    return replace(measurement, co_runners=UNKNOWN_CO_RUNNERS)
