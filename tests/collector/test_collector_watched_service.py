"""Watching a service that is a process of its own, and is slower while something is measured beside it."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fake_service import SLOWEST_S, FakeService

from costmodel.collector import ServiceWatch
from costmodel.collector.runners._base import CannotGoOnError
from costmodel.collector.runners._watched_service import WatchedService, p99
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box

WINDOW = 300


@pytest.fixture
def service(tmp_path: Path) -> Iterator[FakeService]:
    with FakeService(tmp_path) as service:
        yield service


def watch(service: FakeService, **settings: float) -> WatchedService:
    return WatchedService(ServiceWatch(service.log, window=WINDOW, **settings))


def test_what_takes_nothing_from_a_service_is_never_paused(service: FakeService) -> None:
    heard: list[int] = []
    settings = ServiceWatch(service.log, window=WINDOW)
    with closing(WatchedService(settings, heard.append)) as watched:
        assert sum(heard) >= WINDOW
        assert 1e-3 < watched.bound_s / 1.05 <= SLOWEST_S
        for _ in range(3):
            with watched.burst():
                service.await_requests(50)
        report = watched.report
    assert (report.pauses, report.paused_s, report.requests_over, report.ended) == (0, 0.0, 0, "")
    assert report.requests >= 3 * 50
    assert abs(report.p99_rise) < 0.05
    assert 1e-3 < report.median_before_s < report.p99_before_s <= SLOWEST_S


def test_a_pause_makes_up_for_every_request_over_the_bound(service: FakeService) -> None:
    told: list[str] = []
    with closing(watch(service)) as watched:
        watched.tell = told.append
        for bursts in (1, 2, 3):
            with watched.burst():
                service.disturb(requests=5)
            report = watched.report
            assert report.pauses == bursts
            assert report.requests_over == len(service.latencies_s(over_s=1.05 * SLOWEST_S)) >= 5 * bursts
            assert 100 * report.requests_over <= report.requests
            assert report.p99_rise <= 0.05
    assert report.paused_s > 0.0
    assert report.slower_by_itself == 0
    assert told[0].startswith("paused, as p99 of the service is over 1.0")
    assert told[-1] == ""


def test_what_a_service_may_lose_is_not_made_up_for(service: FakeService) -> None:
    with closing(watch(service, may_lose=1.5)) as watched:
        with watched.burst():
            service.disturb(requests=50)
        assert watched.report.pauses == 0
        assert watched.report.p99_rise > 0.5


def test_a_service_that_is_slower_by_itself_is_not_held_against_what_is_measured(
    service: FakeService,
) -> None:
    with closing(watch(service)) as watched:
        service.times(1.5)
        with watched.burst():
            service.await_requests(100)
        report = watched.report
        assert (report.pauses, report.slower_by_itself) == (1, 1)
        assert report.requests < 100 * report.requests_over
        assert report.p99_alone_s == pytest.approx(1.5 * SLOWEST_S, rel=0.05)
        with watched.burst():
            service.await_requests(100)
        assert watched.report.pauses == 1


def test_a_service_that_is_faster_is_held_to_what_it_is_then(service: FakeService) -> None:
    """Its load has gone down: what would have been no loss before is one now."""
    service.times(2.0)
    service.await_requests(10, over_s=SLOWEST_S)
    with closing(watch(service)) as watched:
        service.times(1.0)
        bursts = 0
        while watched.bound_s > 1.5e-3 and bursts < 10 * WINDOW:
            bursts += 1
            with watched.burst():
                service.await_requests(1)
        with watched.burst():
            service.disturb(requests=20, factor=1.5)
        assert watched.report.pauses > 0


def assert_ended(watched: WatchedService, said: str) -> None:
    """The last burst counts, and there is no other."""
    assert re.search(said, watched.report.ended)
    before = watched.report
    with pytest.raises(CannotGoOnError, match=said), watched.burst():
        raise AssertionError("nothing may be measured")
    assert watched.report == before


def test_a_bound_that_a_pause_cannot_keep_ends_it(service: FakeService) -> None:
    with closing(watch(service, longest_pause_s=0.2)) as watched:
        with watched.burst():
            service.disturb(requests=100)
        assert watched.report.paused_s >= 0.2
        assert_ended(watched, r"1\d\d of \d+ did, and a pause of 0\.2 s .* \(p99 without tuning: 1\.0\d ms")


def test_a_service_that_goes_silent_ends_it(service: FakeService) -> None:
    with closing(watch(service, silence_s=0.3)) as watched:
        with watched.burst():
            service.disturb(requests=20)
            os.kill(service.process.pid, signal.SIGSTOP)
        assert watched.report.requests_over >= 20
        assert_ended(watched, r"latencies\.log had none for 0\.3 s\. Start the service")


def test_a_file_that_does_not_grow_or_holds_no_latencies_is_named(tmp_path: Path) -> None:
    log = tmp_path / "other.log"
    log.write_text("0.001\n" * 2 * WINDOW)
    with pytest.raises(CannotGoOnError, match=r"other\.log had none for 0\.1 s\. Start the service"):
        WatchedService(ServiceWatch(log, silence_s=0.1))

    with (
        log.open("a") as out,
        pytest.raises(CannotGoOnError, match=r"for 0\.1 s \(\d+ lines began with no positive number\)"),
    ):
        WatchedService(ServiceWatch(log, silence_s=0.1), lambda _: print("GET /", file=out, flush=True))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"may_lose": 0.0}, "may_lose must be above 0 and finite, but got 0"),
        ({"may_lose": float("inf")}, "may_lose must be above 0 and finite, but got inf"),
        ({"window": 298}, "window must be at least 299 requests, as fewer give no p99, but got 298"),
        ({"longest_pause_s": -1.0}, "longest_pause_s must be above 0"),
        ({"silence_s": float("nan")}, "silence_s must be a number, but got nan"),
    ],
)
def test_settings_out_of_range_are_refused(settings: dict[str, float], said: str) -> None:
    with pytest.raises(CostModelError, match=said):
        ServiceWatch("latencies.log", **settings)


def test_a_watch_without_a_file_is_refused() -> None:
    with pytest.raises(CostModelError, match="latencies must be a path, but got None"):
        ServiceWatch(None)  # type: ignore[arg-type]


def test_one_in_a_hundred_is_above_p99() -> None:
    assert p99([float(i) for i in range(1, 1001)]) == 990.0
    assert p99([1.0, 2.0]) == 2.0
