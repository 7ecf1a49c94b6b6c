"""Tuning beside a service: on SMs of its own, watched, and ended where it cannot go on."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager

from costmodel.errors import CostModelError
from costmodel.progress import Progress
from costmodel.search import Search
from costmodel.shadow import CannotGoOnError, ServiceWatch, WatchedService
from costmodel.tuning._request import TuneRequest


def check_beside(request: TuneRequest, *, measure_curves: bool) -> None:
    """Check that a search leaves a service its SMs.

    Raises:
        CostModelError: It would measure on the whole device.
    """
    if not request.sms or request.free_sms is not None or measure_curves:
        raise CostModelError(
            "Beside a service the SMs that it leaves must be named (sms), and nothing may be measured on the "
            "whole device (free_sms, measure_curves), but something would be. Name the SMs alone."
        )


@contextmanager
def watched(watch: ServiceWatch | None) -> Iterator[WatchedService | None]:
    """A service of which is known what it does alone, before anything is opened beside it; None for None.

    Raises:
        CostModelError: The service tells nothing.
    """
    if watch is None:
        yield None
        return
    with Progress("watching the service alone, requests", watch.window) as progress:
        service = WatchedService(watch, lambda requests: progress.advance(steps=requests))
    with closing(service):
        yield service


@contextmanager
def as_far_as_it_may(
    service: WatchedService | None, searches: Sequence[Search], tell: Callable[[str], None]
) -> Iterator[None]:
    """End with what searches have where they cannot go on beside a service.

    Raises:
        CannotGoOnError: They have nothing.
    """
    if service is None:
        yield
        return
    service.tell = tell
    try:
        yield
    except CannotGoOnError as error:
        if not any(search.result.trials for search in searches):
            raise
        service.ended = str(error)
