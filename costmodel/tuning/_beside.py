"""Tuning beside a service: on SMs of its own, watched, and ended where it cannot go on."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

from costmodel.errors import CostModelError
from costmodel.progress import Progress
from costmodel.shadow import CannotGoOnError, ServiceWatch, WatchedService
from costmodel.tuning._request import TuneRequest


@contextmanager
def watched(
    beside: ServiceWatch | Path | str | None, request: TuneRequest, *, measure_curves: bool, lanes: bool
) -> Iterator[WatchedService | None]:
    """A service of which is known what it does alone, before anything is opened beside it; None for None.

    Args:
        beside: What it may lose, or the file of its latencies to take the usual bound.
        request: What is tuned beside it.
        measure_curves: Whether other SM budgets are to be measured too.
        lanes: Whether any SMs may be measured on that no other tuner has.

    Raises:
        CostModelError: The service tells nothing, or the request leaves it no SMs.
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
def as_far_as_it_may(service: WatchedService | None, tell: Callable[[str], None]) -> Iterator[None]:
    """End searches where they cannot go on beside a service, if it is watched."""
    if service is None:
        yield
        return
    service.tell = tell
    with suppress(CannotGoOnError):
        yield


def _check(request: TuneRequest, *, measure_curves: bool, lanes: bool) -> None:
    """Check that a search leaves a service its SMs.

    Raises:
        CostModelError: It would measure on others.
    """
    if not request.sms or request.free_sms is not None or measure_curves or lanes:
        raise CostModelError(
            "Beside a service the SMs that it leaves must be named (sms), and nothing may be measured on "
            "others (free_sms, measure_curves, lanes), but something would be. Name the SMs alone."
        )
