"""Shadow tuning: search on some SMs while a watched service runs on the others."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.progress import Progress
from costmodel.shadow._service_watch import ServiceWatch
from costmodel.shadow._watched_service import CannotGoOnError, WatchedService
from costmodel.tuning._request import TuneRequest


@contextmanager
def watched(
    beside: ServiceWatch | Path | str | None, request: TuneRequest, *, measure_curves: bool, lanes: bool
) -> Iterator[WatchedService | None]:
    """Watch a service, after measuring its latency alone; yield None if there is no service.

    Args:
        beside: The watch of the service, or the file of its latencies, for the default bound.
        request: The request of the search that runs alongside.
        measure_curves: Whether other SM budgets are to be measured too.
        lanes: Whether the search may take any SMs that no other tuner has.

    Raises:
        CostModelError: The service reports no latencies, or the request leaves it no SMs.
    """
    if beside is None:
        yield None
        return
    _check(request, measure_curves=measure_curves, lanes=lanes)
    watch = beside if isinstance(beside, ServiceWatch) else ServiceWatch(beside)
    with Progress("watching the service alone, requests", watch.window) as progress:
        service = WatchedService(watch, lambda requests: progress.advance(steps=requests))
    with closing(service):
        yield service


@contextmanager
def ended_by_service(service: WatchedService | None, tell: Callable[[str], None]) -> Iterator[None]:
    """End searches without an error when a watched service does not allow them to continue."""
    if service is None:
        yield
        return
    service.tell = tell
    with suppress(CannotGoOnError):
        yield


def _check(request: TuneRequest, *, measure_curves: bool, lanes: bool) -> None:
    """Check that a search measures only on the SMs that it names.

    Raises:
        CostModelError: It would measure on others.
    """
    if not request.sms or request.free_sms is not None or measure_curves or lanes:
        raise CostModelError(
            "A search beside a service must name its SMs (sms) and measure on no others (free_sms, "
            "measure_curves, lanes), but this one would. Give only sms."
        )
