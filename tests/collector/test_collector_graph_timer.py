"""The stopwatch of CUDA graphs, on a driver that writes down what it is told."""

from collections.abc import Callable
from typing import Any

import pytest
from fake_graph_driver import RUN_MS, STREAM, FakeDriver, call

from costmodel.collector.device._graph_timer import GraphStopwatch

pytestmark = pytest.mark.white_box


@pytest.fixture
def driver() -> FakeDriver:
    return FakeDriver()


@pytest.fixture
def watch(driver: FakeDriver) -> GraphStopwatch:
    return GraphStopwatch(driver, call, STREAM, driver.launch, lambda: driver.log.append("hold"))


@pytest.mark.parametrize(
    ("runs", "replays", "nodes"), [(1, 1, 1), (7, 1, 7), (100, 1, 100), (102, 2, 51), (500, 5, 100)]
)
def test_the_mean_of_all_runs(driver, watch, runs: int, replays: int, nodes: int) -> None:
    assert watch.time(runs) == pytest.approx(RUN_MS * 1e-3)
    assert driver.clock_ms == pytest.approx(RUN_MS * runs)
    assert driver.log == [f"capture {nodes}", "upload", "hold", *[f"launch {nodes}"] * replays, "wait"]


def test_a_graph_that_starts_late_is_run_again_behind_a_longer_hold(driver, watch) -> None:
    driver.launch_takes_holds = 3
    assert watch.time(200) == pytest.approx(RUN_MS * 1e-3)
    once = ["launch 100", "launch 100", "wait"]
    assert driver.log[2:] == ["hold", *once, *["hold"] * 2, *once, *["hold"] * 4, *once]
    driver.log.clear()
    watch.time(200)
    assert driver.log == [*["hold"] * 4, *once]


def test_a_host_that_is_always_late_is_taken_as_it_is(driver, watch) -> None:
    driver.launch_takes_holds = 1000
    assert watch.time(1) == pytest.approx(RUN_MS * 1e-3)
    assert driver.log.count("wait") == 5
    assert driver.log.count("hold") == 1 + 2 + 4 + 8 + 16


def test_a_graph_is_made_once_for_each_number_of_nodes(driver, watch) -> None:
    for runs in (1, 20, 20, 20, 100, 300, 200):
        watch.time(runs)
    captures = [entry for entry in driver.log if entry.startswith("capture")]
    assert captures == ["capture 1", "capture 20", "capture 100"]


def test_one_graph_is_kept_and_all_is_freed_at_the_end(driver, watch) -> None:
    for runs in (1, 20, 100):
        watch.time(runs)
        assert sorted(handle.rstrip("0123456789") for handle in driver.alive) == [
            "event",
            "event",
            "executable",
        ]
    watch.close()
    assert driver.alive == set()


def test_a_stopwatch_that_timed_nothing_is_closed(driver, watch) -> None:
    watch.close()
    assert driver.alive == set()


def test_what_the_driver_refuses_is_raised(driver, watch, monkeypatch) -> None:
    refuse: Callable[..., Any] = lambda *_: ("CUDA_ERROR_LAUNCH_FAILED",)  # noqa: E731
    monkeypatch.setattr(driver, "cuEventSynchronize", refuse)
    with pytest.raises(RuntimeError, match="LAUNCH_FAILED"):
        watch.time(3)


def test_a_stream_is_free_again_after_a_launch_that_fails(driver) -> None:
    def launch() -> None:
        raise RuntimeError("CUDA_ERROR_INVALID_VALUE")

    watch = GraphStopwatch(driver, call, STREAM, launch, lambda: None)
    with pytest.raises(RuntimeError, match="INVALID_VALUE"):
        watch.time(1)
    assert driver._captured is None
