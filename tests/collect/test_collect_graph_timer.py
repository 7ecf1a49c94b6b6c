"""The stopwatch of CUDA graphs, on a driver that writes down what it is told."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel.collect._graph_timer import GraphStopwatch

STREAM = 77
RUN_MS = 0.25


class FakeDriver:
    """Counts the kernels that a stream runs; each takes ``RUN_MS`` on the device's clock."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_NOT_READY=600)

    def __init__(self) -> None:
        self.launch_takes_holds = 0  # how long the host needs to launch a graph
        self.log: list[str] = []
        self.alive: set[Any] = set()
        self.clock_ms = 0.0
        self._captured: int | None = None
        self._nodes: dict[Any, int] = {}
        self._made = 0

    def launch(self) -> None:
        """What a kernel's launch does: part of a graph while one is captured."""
        assert self._captured is not None, "launched without a graph"
        self._captured += 1

    def _make(self, kind: str) -> str:
        self._made += 1
        handle = f"{kind}{self._made}"
        self.alive.add(handle)
        return handle

    def cuEventCreate(self, flags: int) -> Any:  # noqa: N802 (the driver's names, here and below)
        return 0, self._make("event")

    def cuEventRecord(self, event: Any, stream: int) -> Any:  # noqa: N802
        assert event in self.alive
        assert stream == STREAM
        self._nodes[event] = self.clock_ms  # type: ignore[assignment]
        return (0,)

    def cuEventSynchronize(self, event: Any) -> Any:  # noqa: N802
        self.log.append("wait")
        return (0,)

    def cuEventQuery(self, event: Any) -> Any:  # noqa: N802
        held = list(reversed(self.log))[1:]  # before the launch
        holds = next((i for i, entry in enumerate(held) if entry != "hold"), len(held))
        return (self.CUresult.CUDA_ERROR_NOT_READY if holds > self.launch_takes_holds else 0,)

    def cuEventElapsedTime(self, start: Any, end: Any) -> Any:  # noqa: N802
        assert self.log[-1] == "wait"
        return 0, self._nodes[end] - self._nodes[start]

    def cuStreamBeginCapture(self, stream: int, mode: str) -> Any:  # noqa: N802
        assert (stream, mode, self._captured) == (STREAM, "relaxed", None)
        self._captured = 0
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> Any:  # noqa: N802
        graph, self._captured, nodes = self._make("graph"), None, self._captured
        self._nodes[graph] = nodes or 0
        self.log.append(f"capture {nodes}")
        return 0, graph

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:  # noqa: N802
        assert graph in self.alive
        executable = self._make("executable")
        self._nodes[executable] = self._nodes[graph]
        return 0, executable

    def cuGraphUpload(self, executable: Any, stream: int) -> Any:  # noqa: N802
        self.log.append("upload")
        return (0,)

    def cuGraphLaunch(self, executable: Any, stream: int) -> Any:  # noqa: N802
        assert executable in self.alive
        assert stream == STREAM
        self.clock_ms += RUN_MS * self._nodes[executable]
        self.log.append(f"launch {self._nodes[executable]}")
        return (0,)

    def _destroy(self, handle: Any) -> Any:
        self.alive.remove(handle)  # KeyError where it is gone already
        return (0,)

    cuEventDestroy = cuGraphDestroy = cuGraphExecDestroy = _destroy  # noqa: N815


def call(result: tuple[Any, ...]) -> Any:
    error, *values = result
    if error:
        raise RuntimeError(error)
    return values[0] if values else ()


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
