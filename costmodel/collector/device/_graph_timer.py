"""Times a kernel by replaying a CUDA graph.

A host that launches one kernel after another needs 3 to 4 us each, and much longer when other processes load
it: on the machine of the first campaign, with 16 build processes on 16 cores, 12 % of the kernels under 20 us
then differed by over 5 % between two visits. A graph holds many runs and is launched at once.
"""

import math
from collections.abc import Callable
from typing import Any

from costmodel.collector.device._timing import MOST_RUNS_AT_ONCE


class RunGraph:
    """Runs of a kernel, back to back.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        stream: Handle of a stream that is not the default one; a graph keeps the SMs of its context.
        launch: Launches the kernels of one run on the stream, without waiting.

    Attributes:
        runs: How many the graph holds.
    """

    def __init__(
        self, driver: Any, call: Callable[[Any], Any], stream: int, launch: Callable[[], None]
    ) -> None:
        self._driver, self._call, self._stream, self._launch = driver, call, stream, launch
        self._graph: Any = None
        self.runs = 0

    def capture(self, runs: int) -> None:
        """Make a graph of this many runs, unless it is there."""
        if runs == self.runs:
            return
        self.close()
        driver, call = self._driver, self._call
        mode = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
        call(driver.cuStreamBeginCapture(self._stream, mode))
        try:
            for _ in range(runs):
                self._launch()
        except Exception:
            driver.cuStreamEndCapture(self._stream)  # or it would take in all that follows on the stream
            raise
        graph = call(driver.cuStreamEndCapture(self._stream))
        self._graph, self.runs = call(driver.cuGraphInstantiate(graph, 0)), runs
        call(driver.cuGraphDestroy(graph))
        call(driver.cuGraphUpload(self._graph, self._stream))  # or the first replay would pay for it

    def replay(self) -> None:
        """Put the runs on the stream, without waiting."""
        self._call(self._driver.cuGraphLaunch(self._graph, self._stream))

    def close(self) -> None:
        """Free the graph."""
        if self._graph is not None:
            self._call(self._driver.cuGraphExecDestroy(self._graph))
        self._graph, self.runs = None, 0


_MOST_HOLDS = 16  # 1.6 ms: a host that takes longer to launch a graph is busy with other things


class GraphStopwatch:
    """Times what ``launch`` puts on a stream.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        stream: Handle of a stream that is not the default one; a graph keeps the SMs of its context.
        launch: Launches the kernels of one run on the stream, without waiting.
        hold: Keeps the stream busy for some 0.1 ms. On an idle device the time until a graph starts is on the
            clock, and it differs: without it, 30 % of the second visits of kernels under 10 us were longer
            than the first by 60 to 90 us a repeat, whatever the number of runs. Where the host was too slow
            all the same, the stream is held twice as long from then on, and the runs are made again.
    """

    def __init__(
        self,
        driver: Any,
        call: Callable[[Any], Any],
        stream: int,
        launch: Callable[[], None],
        hold: Callable[[], None],
    ) -> None:
        self._driver, self._call, self._stream = driver, call, stream
        self._graph, self._hold = RunGraph(driver, call, stream, launch), hold
        self._events = [call(driver.cuEventCreate(0)) for _ in range(2)]
        self._holds = 1

    def time(self, runs: int) -> float:
        """Seconds of one run, the mean of ``runs`` back-to-back runs; see ``Stopwatch``."""
        replays = math.ceil(runs / MOST_RUNS_AT_ONCE)
        self._graph.capture(runs // replays)
        while self._starts_late(replays) and self._holds < _MOST_HOLDS:
            self._holds *= 2
        milliseconds = self._call(self._driver.cuEventElapsedTime(*self._events))
        return float(milliseconds) * 1e-3 / runs

    def _starts_late(self, replays: int) -> bool:
        """Replay the graph between the events; whether the first had passed before the graph was launched."""
        driver, call, (start, end) = self._driver, self._call, self._events
        for _ in range(self._holds):
            self._hold()
        call(driver.cuEventRecord(start, self._stream))
        self._graph.replay()
        (passed,) = driver.cuEventQuery(start)
        for _ in range(replays - 1):
            self._graph.replay()
        call(driver.cuEventRecord(end, self._stream))
        call(driver.cuEventSynchronize(end))
        return bool(passed == driver.CUresult.CUDA_SUCCESS)

    def close(self) -> None:
        """Free the graph and the events."""
        self._graph.close()
        for event in self._events:
            self._call(self._driver.cuEventDestroy(event))
