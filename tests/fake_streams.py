"""A CUDA driver of streams that run at once, whose kernels take longer beside those of other streams."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

SUCCESS, NOT_READY = 0, 600
HOLD_S = 1e-4


class FakeStreams:
    """Streams with clocks of their own; what is on them runs when the host waits for an event.

    Args:
        beside: What a run takes on a stream, in seconds, given the other streams that have work.
        late_holds: Holds behind which the host is still too slow.
    """

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUresult = SimpleNamespace(CUDA_SUCCESS=SUCCESS)

    def __init__(self, beside: Callable[[int, frozenset[int]], float], late_holds: int = 0) -> None:
        self._beside, self._late_holds = beside, late_holds
        self.queues: dict[int, list[tuple[str, Any]]] = {}
        self.times: dict[str, float] = {}
        self.alive: set[str] = set()
        self.holds = 0
        self._captured: int | None = None
        self._graphs: dict[str, int] = {}
        self._made = 0

    def hold(self, stream: int) -> None:
        self.holds += 1
        self._put(stream, "hold", None)

    @property
    def is_capturing(self) -> bool:
        return self._captured is not None

    def launch(self) -> None:
        assert self._captured is not None, "launched without a graph"
        self._captured += 1

    def _make(self, kind: str) -> str:
        self._made += 1
        self.alive.add(f"{kind}{self._made}")
        return f"{kind}{self._made}"

    def _put(self, stream: int, kind: str, what: Any) -> Any:
        self.queues.setdefault(stream, []).append((kind, what))
        return (SUCCESS,)

    def cuEventCreate(self, flags: int) -> Any:  # noqa: N802 (the driver's names, here and below)
        return SUCCESS, self._make("event")

    def cuEventRecord(self, event: str, stream: int) -> Any:  # noqa: N802
        return self._put(stream, "event", event)

    def cuStreamWaitEvent(self, stream: int, event: str, flags: int) -> Any:  # noqa: N802
        return self._put(stream, "wait", event)

    def cuEventQuery(self, event: str) -> Any:  # noqa: N802
        return (SUCCESS if self.holds <= self._late_holds else NOT_READY,)

    def cuEventSynchronize(self, event: str) -> Any:  # noqa: N802
        self._run()
        return (SUCCESS,)

    def cuEventElapsedTime(self, start: str, end: str) -> Any:  # noqa: N802
        return SUCCESS, (self.times[end] - self.times[start]) * 1e3

    def cuStreamBeginCapture(self, stream: int, mode: str) -> Any:  # noqa: N802
        assert self._captured is None
        self._captured = 0
        return (SUCCESS,)

    def cuStreamEndCapture(self, stream: int) -> Any:  # noqa: N802
        graph, runs, self._captured = self._make("graph"), self._captured or 0, None
        self._graphs[graph] = runs
        return SUCCESS, graph

    def cuGraphInstantiate(self, graph: str, flags: int) -> Any:  # noqa: N802
        executable = self._make("executable")
        self._graphs[executable] = self._graphs[graph]
        return SUCCESS, executable

    def cuGraphUpload(self, executable: str, stream: int) -> Any:  # noqa: N802
        return (SUCCESS,)

    def cuGraphLaunch(self, executable: str, stream: int) -> Any:  # noqa: N802
        assert executable in self.alive
        return self._put(stream, "runs", self._graphs[executable])

    def _destroy(self, handle: str) -> Any:
        self.alive.remove(handle)
        return (SUCCESS,)

    cuEventDestroy = cuGraphDestroy = cuGraphExecDestroy = _destroy  # noqa: N815

    def _run(self) -> None:
        """Run what is queued, a run at a time: always that of the stream that is least far."""
        clocks = dict.fromkeys(self.queues, 0.0)
        queues = {stream: _runs(queue) for stream, queue in self.queues.items()}
        for kind, what in [each for queue in self.queues.values() for each in queue]:
            if kind == "event":
                self.times.pop(what, None)
        self.queues, self.holds = {}, 0
        while busy := [stream for stream, queue in queues.items() if queue]:
            ready = [
                each for each in busy if queues[each][0][0] != "wait" or queues[each][0][1] in self.times
            ]
            stream = min(ready, key=lambda each: clocks[each])
            kind, what = queues[stream].pop(0)
            if kind == "event":
                self.times[what] = clocks[stream]
            elif kind == "wait":
                clocks[stream] = max(clocks[stream], self.times[what])
            elif kind == "hold":
                clocks[stream] += HOLD_S
            else:
                others = [each for each in busy if each != stream and queues[each][0][0] in ("run", "event")]
                clocks[stream] += self._beside(stream, frozenset(others))


def _runs(queue: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
    return [
        each for kind, what in queue for each in ([("run", 1)] * what if kind == "runs" else [(kind, what)])
    ]


def call(result: tuple[Any, ...]) -> Any:
    error, *values = result
    assert not error
    return values[0] if values else ()
