"""A device that is entered whole or in part, and what times a network on it."""

import os
import time
from collections.abc import Callable, Mapping
from functools import partial

from costmodel.collector.device._timing import Stopwatch

Launch = Callable[[], object]


class CpuParts:
    """The CPU; a part of it is a number of threads."""

    def __init__(self) -> None:
        import tvm

        self.device = tvm.cpu(0)
        self.whole = _cores()
        self._configure = tvm.get_global_func("runtime.config_threadpool")

    def enter(self, sms: int) -> int:
        """Run what follows with this many threads; how many it got."""
        self._configure(1, sms)
        return sms

    def synchronize(self) -> None:
        """The CPU is done when a call returns."""

    def stopwatch(self, launch: Launch) -> Stopwatch:
        return _CpuStopwatch(launch)


class _CpuStopwatch:
    def __init__(self, launch: Launch) -> None:
        self._launch = launch

    def time(self, runs: int) -> float:
        start = time.perf_counter()
        for _ in range(runs):
            self._launch()
        return (time.perf_counter() - start) / runs


def _cores() -> int:
    return len(os.sched_getaffinity(0))


class CudaParts:
    """The first visible NVIDIA GPU; a part of it is a green context, entered by its stream.

    TVM makes the primary context current before each launch, so the green context never is.
    """

    def __init__(self) -> None:
        import tvm

        from costmodel.collector.device._green_context import GreenContexts
        from costmodel.collector.device._spin_kernel import SpinKernel

        self.device = tvm.cuda(0)
        self._contexts = GreenContexts()
        self._spin = SpinKernel(self._contexts.driver, self._contexts.call)
        self.whole = self._contexts.total_sms
        self._stream = 0
        self._granted: dict[int, int] = {}

    def enter(self, sms: int) -> int:
        """Launch what follows on this many SMs; how many the driver granted, which kernels were seen on."""
        from costmodel.collector.device._spin_kernel import verify_grant

        self.synchronize()
        (self._stream, *_), granted = self._contexts.streams(sms)
        self.device.set_raw_stream(self._stream)
        if sms not in self._granted:
            verify_grant(granted, len(self._spin.sm_ids(self._stream)))
            self._granted[sms] = granted
        return granted

    def synchronize(self) -> None:
        """Wait for all streams: TVM copies on one that does not wait for ours."""
        self._contexts.synchronize()

    def stopwatch(self, launch: Launch) -> Stopwatch:
        """One that replays runs as CUDA graphs: the latency is the device's, not the host's that launches."""
        from costmodel.collector.device._graph_timer import GraphStopwatch

        stream, contexts = self._stream, self._contexts
        hold = partial(self._spin.hold, stream)
        return GraphStopwatch(contexts.driver, contexts.call, stream, launch, hold)


Parts = CpuParts | CudaParts
PARTS: Mapping[str, Callable[[], Parts]] = {"cuda": CudaParts, "cpu": CpuParts}
