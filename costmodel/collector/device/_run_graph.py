"""A CUDA graph of some runs of a kernel, which a host launches at once."""

from collections.abc import Callable
from typing import Any


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
