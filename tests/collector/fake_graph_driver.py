"""A CUDA driver that runs graphs on a clock of its own, and writes down what it is told."""

from types import SimpleNamespace
from typing import Any

STREAM = 77
RUN_MS = 0.25


class FakeDriver:
    """Runs graphs of kernels on one stream, with a clock of its own."""

    CUstreamCaptureMode = SimpleNamespace(CU_STREAM_CAPTURE_MODE_RELAXED="relaxed")
    CUresult = SimpleNamespace(CUDA_SUCCESS=0, CUDA_ERROR_NOT_READY=600)

    def __init__(self) -> None:
        self.launch_takes_holds = 0  # how long the host needs to launch a graph
        self.log: list[str] = []
        self.alive: set[Any] = set()
        self.clock_ms = 0.0
        self._captured: list[float] | None = None  # what each kernel takes, in ms
        self._kernels: dict[Any, list[float]] = {}
        self._recorded: dict[Any, float] = {}
        self._made = 0

    def launch(self, ms: float = RUN_MS) -> None:
        """What a kernel's launch does: part of a graph while one is captured."""
        assert self._captured is not None, "launched without a graph"
        self._captured.append(ms)

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
        self._recorded[event] = self.clock_ms
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
        return 0, self._recorded[end] - self._recorded[start]

    def cuStreamBeginCapture(self, stream: int, mode: str) -> Any:  # noqa: N802
        assert (stream, mode, self._captured) == (STREAM, "relaxed", None)
        self._captured = []
        return (0,)

    def cuStreamEndCapture(self, stream: int) -> Any:  # noqa: N802
        graph, self._captured, kernels = self._make("graph"), None, self._captured or []
        self._kernels[graph] = kernels
        self.log.append(f"capture {len(kernels)}")
        return 0, graph

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:  # noqa: N802
        assert graph in self.alive
        executable = self._make("executable")
        self._kernels[executable] = self._kernels[graph]
        return 0, executable

    def cuGraphUpload(self, executable: Any, stream: int) -> Any:  # noqa: N802
        self.log.append("upload")
        return (0,)

    def cuGraphLaunch(self, executable: Any, stream: int) -> Any:  # noqa: N802
        assert executable in self.alive
        assert stream == STREAM
        self.clock_ms += sum(self._kernels[executable])
        self.log.append(f"launch {len(self._kernels[executable])}")
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
