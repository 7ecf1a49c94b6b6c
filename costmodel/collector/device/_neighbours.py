"""Time kernels that run at the same time on disjoint partitions.

Every partition runs graphs of its kernel without a pause, all from one start, and an event behind each graph
tells when it was done. What counts is the time that all partitions were busy: from the end of a lane's first
graph, as kernels have then met in the L2 cache, until the first lane is through.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from costmodel.collector.device._graph_timer import RunGraph
from costmodel.collector.device._timing import MOST_RUNS_AT_ONCE

_GRAPH_S = 4e-4  # gaps between graphs are under 2 us
_FEWEST_GRAPHS, _MOST_GRAPHS = 6, 64
_MOST_HOLDS = 64  # 6.4 ms
_ATTEMPTS = 3


class Lane:
    """A kernel on a partition.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        stream: Handle of the partition's stream.
        launch: Launches one run on the stream, without waiting.

    Attributes:
        graph: Some runs.
        graph_s: About what they take alone.
    """

    def __init__(
        self, driver: Any, call: Callable[[Any], Any], stream: int, launch: Callable[[], Any]
    ) -> None:
        self.stream, self.graph = stream, RunGraph(driver, call, stream, launch)
        self.graph_s = 0.0


class NeighbourTimer:
    """Times a lane alone, or several beside each other.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        hold: Keeps a stream busy for some 0.1 ms, while the host launches what follows.
    """

    def __init__(self, driver: Any, call: Callable[[Any], Any], hold: Callable[[int], None]) -> None:
        self._driver, self._call, self._hold = driver, call, hold
        self._events: list[Any] = []
        self._used = 0
        self._holds = 2

    def prepare(self, lane: Lane) -> None:
        """Choose how many runs make a graph of a lane."""
        for runs_s in (math.inf, _GRAPH_S / 4, _GRAPH_S):  # the first run is slow, and few are rounded
            runs = math.ceil(runs_s / lane.graph_s * lane.graph.runs) if math.isfinite(runs_s) else 1
            lane.graph.capture(min(MOST_RUNS_AT_ONCE, runs))
            lane.graph_s = self._ends([lane], [2])[0][1] / 2

    def time(self, lanes: Sequence[Lane], window_s: float) -> list[float]:
        """Seconds of one run of each lane beside the others.

        Args:
            lanes: One on each of some disjoint partitions, prepared; one on its own is timed alone.
            window_s: How long they run, at least.

        Raises:
            RuntimeError: The driver refuses, or one lane is too slow to end two graphs beside another.
        """
        lengths = [lane.graph_s for lane in lanes]
        for _ in range(_ATTEMPTS):
            together_s = max(window_s, _FEWEST_GRAPHS * max(lengths))
            graphs = [min(_MOST_GRAPHS, 1 + math.ceil(together_s / length)) for length in lengths]
            every = self._ends(lanes, graphs)
            until = min(ends[-1] for ends in every)
            inside = [[end for end in ends if end <= until] for ends in every]
            if all(len(ends) > 1 for ends in inside):
                spans = [(ends[-1] - ends[0]) / (len(ends) - 1) for ends in inside]
                return [span / lane.graph.runs for span, lane in zip(spans, lanes, strict=True)]
            lengths = [ends[0] for ends in every]
        raise RuntimeError("a kernel must end two graphs before the kernel next to it has finished")

    def close(self) -> None:
        """Free the events."""
        for event in self._events:
            self._call(self._driver.cuEventDestroy(event))
        self._events = []

    def _ends(self, lanes: Sequence[Lane], graphs: Sequence[int]) -> list[list[float]]:
        """Seconds from the common start to the end of each graph, of so many on each lane.

        Where the host let a lane run dry, lanes are held twice as long from then on, and all is made again.
        """
        while True:
            events, ran_dry = self._launch(lanes, graphs)
            for of_lane in events:
                self._call(self._driver.cuEventSynchronize(of_lane[-1]))
            if not ran_dry or self._holds >= _MOST_HOLDS:
                return [[self._seconds(start, end) for end in ends] for start, *ends in events]
            self._holds *= 2

    def _launch(self, lanes: Sequence[Lane], graphs: Sequence[int]) -> tuple[list[list[Any]], bool]:
        """Launch graphs on all lanes, in about the order in which they start.

        Returns:
            For each lane its start and the end of each graph; whether one was done before the next was
            launched.
        """
        driver, call, self._used = self._driver, self._call, 0
        first = lanes[0].stream
        for _ in range(self._holds):
            self._hold(first)
        go = self._recorded(first)
        for lane in lanes[1:]:
            call(driver.cuStreamWaitEvent(lane.stream, go, 0))
        events = [[self._recorded(lane.stream)] for lane in lanes]
        starts = sorted(
            (number * lane.graph_s, place)
            for place, lane in enumerate(lanes)
            for number in range(graphs[place])
        )
        ran_dry = False
        for _, place in starts:
            (passed,) = driver.cuEventQuery(events[place][-1])
            ran_dry |= passed == driver.CUresult.CUDA_SUCCESS
            lanes[place].graph.replay()
            events[place].append(self._recorded(lanes[place].stream))
        return events, ran_dry

    def _recorded(self, stream: int) -> Any:
        """An event behind what is on a stream now."""
        if self._used == len(self._events):
            self._events.append(self._call(self._driver.cuEventCreate(0)))
        event = self._events[self._used]
        self._used += 1
        self._call(self._driver.cuEventRecord(event, stream))
        return event

    def _seconds(self, start: Any, end: Any) -> float:
        return float(self._call(self._driver.cuEventElapsedTime(start, end))) * 1e-3
