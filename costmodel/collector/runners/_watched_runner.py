"""A runner that measures one kernel at a time, and checks a service after each."""

from collections.abc import Sequence

from msgspec.structs import replace

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._watched_service import WatchedService
from costmodel.collector.runners._wrapped import WrappedRunner
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS, Measurement, Outcome
from costmodel.records._platform import Platform

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

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Nothing: a kernel is built when it is measured."""


def _beside(measurement: Measurement) -> Measurement:
    return replace(measurement, co_runners=UNKNOWN_CO_RUNNERS)
