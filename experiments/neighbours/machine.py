"""An NVIDIA GPU that runs a kernel on each of two disjoint partitions, or one on all of its SMs."""

import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from costmodel.collector import GreenContexts
from costmodel.collector.device._cubin_runtime import CubinRuntime
from costmodel.collector.device._cuda_device import StateReader, pci_bus_id
from costmodel.collector.device._device import describe_device
from costmodel.collector.device._job import DeviceSetup
from costmodel.collector.device._neighbours import Lane, NeighbourTimer
from costmodel.collector.device._runtimes import Runtime, TorchRuntime
from costmodel.collector.device._spin_kernel import SpinKernel
from costmodel.collector.device._workload_data import WorkloadData
from costmodel.errors import CostModelError
from costmodel.kernels import KernelSource
from costmodel.records import Workload

WHOLE = "whole"
_FILLING_BYTES = 192 << 20  # three times the L2 cache
Layout = tuple[int, int]
Place = tuple[Layout | str, int]  # a layout and 0 or 1, its left or right; or the whole device and 0


@dataclass
class _Loaded:
    """A kernel twice, each with arguments of its own, so that it can run beside itself."""

    runtime: Runtime
    launches: list[partial[Any]]
    lanes: dict[Place, Lane] = field(default_factory=dict)


class Machine:
    """The first visible GPU.

    Raises:
        CostModelError: There is none.
    """

    def __init__(self) -> None:
        # Of the driver's work queues streams share 8 by default: a kernel would wait for one beside it.
        os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
        try:
            self._contexts = contexts = GreenContexts()
        except (ImportError, RuntimeError) as error:
            raise CostModelError(
                f"Kernels run beside each other on an NVIDIA GPU with a driver for CUDA 13, but none can be "
                f"opened here ({error}). Run this where there is one."
            ) from error
        self._spin = SpinKernel(contexts.driver, contexts.call)
        self._reader = StateReader(pci_bus_id(contexts.driver, contexts.call))
        self._timer = NeighbourTimer(contexts.driver, contexts.call, self._spin.hold)
        (whole, *_), _ = contexts.streams(contexts.total_sms)
        self._streams: dict[Place, int] = {(WHOLE, 0): whole}
        self._runtimes: dict[str, Runtime] = {}
        self._loaded: dict[str, _Loaded] = {}
        self._filling: Any = None
        self._fills: dict[int, Lane] = {}

    def split(self, layout: Layout) -> tuple[int, int]:
        """SMs that kernels were seen on, on the left and on the right of a layout.

        Raises:
            RuntimeError: The driver refuses, or the two are not disjoint.
        """
        left, right = layout
        if left == right:
            streams, granted = self._contexts.streams(left, 2)
            found = [(stream, granted) for stream in streams]
        elif left + right == self._contexts.total_sms:
            (stream,), granted = self._contexts.streams(left)
            found = [(stream, granted), self._contexts.rest(left)]
        else:
            found = self._contexts.disjoint(layout)
        seen = [self._spin.sm_ids(stream) for stream, _ in found]
        if seen[0] & seen[1] or [len(ids) for ids in seen] != [granted for _, granted in found]:
            raise RuntimeError(f"partitions of {layout} must be disjoint, but kernels ran on {seen}")
        for side, (stream, _) in enumerate(found):
            self._streams[layout, side] = stream
        return len(seen[0]), len(seen[1])

    def describe(self) -> dict[str, Any]:
        """The GPU and versions."""
        device, versions = describe_device(DeviceSetup("cuda", 1, artifacts=tuple(self._runtimes)))
        return {"device": msgspec.to_builtins(device), "software": versions}

    def open_runtimes(self, artifacts: Collection[str]) -> None:
        """Open what runs the artifacts that end so, in this thread."""
        contexts = self._contexts
        for artifact in artifacts:
            self._runtimes[artifact] = (
                CubinRuntime(contexts.driver, contexts.call) if artifact == ".cubin" else TorchRuntime("cuda")
            )

    def data(self, source: KernelSource, workload: Workload, reference: Path) -> WorkloadData:
        """The arguments of a kernel on the device, twice. Safe to call from any thread."""
        self._contexts.make_current()
        data = WorkloadData(source, workload, reference, self._runtimes[source.artifact])
        data.copies(2)
        return data

    def load(self, name: str, artifact: Path, data: WorkloadData) -> None:
        """Load a kernel twice, and compare its output with the right one.

        Raises:
            RuntimeError: Its output is wrong, or the driver refuses.
        """
        runtime = self._runtimes["".join(artifact.suffixes)]
        kernels = [runtime.load(artifact) for _ in range(2)]
        launches = [partial(kernel, *copy) for kernel, copy in zip(kernels, data.copies(2), strict=True)]
        runtime.use_stream(self._streams[WHOLE, 0])
        self._contexts.synchronize()
        result = launches[0]()
        self._contexts.synchronize()
        if not data.are_right(data.written(result)):
            raise RuntimeError("its output differs from the reference")
        self._loaded[name] = _Loaded(runtime, launches)

    def is_broken(self) -> bool:
        """Whether a kernel's fault has made the process useless."""
        try:
            self._contexts.synchronize()
        except RuntimeError:
            return True
        return False

    def prepare(self, name: str, place: Place) -> None:
        """Make the graph of a kernel on a partition, unless it is there."""
        loaded = self._loaded[name]
        if place in loaded.lanes:
            return
        stream, launch = self._streams[place], loaded.launches[place[1]]
        loaded.runtime.use_stream(stream)
        launch()  # what it makes at its first launch on a stream, it makes outside of a graph
        self._contexts.synchronize()
        loaded.lanes[place] = self._lane(stream, launch)

    def time(self, kernels: Sequence[tuple[str, Place]], window_s: float) -> list[float]:
        """Seconds of one run of each kernel, each on its partition, beside the others."""
        for kernel in kernels:
            self.prepare(*kernel)
        lanes = [self._loaded[name].lanes[place] for name, place in kernels]
        return self._timer.time(lanes, window_s)

    def time_cold(self, name: str, place: Place, window_s: float, rounds: int) -> list[float]:
        """Seconds of one run of a kernel alone that finds nothing of its own in the L2 cache, some times.

        The cache is filled with something else before each run, and the time of that taken off.
        """
        self.prepare(name, place)
        loaded, stream = self._loaded[name], self._streams[place]
        loaded.runtime.use_stream(stream)
        kernel, fill = loaded.launches[place[1]], partial(self._fill_cache, stream)

        def cold() -> None:
            fill()
            kernel()

        if stream not in self._fills:
            self._fills[stream] = self._lane(stream, fill)
        lane = self._lane(stream, cold)
        times = [
            [self._timer.time([e], window_s)[0] for e in (lane, self._fills[stream])] for _ in range(rounds)
        ]
        lane.graph.close()
        return [of_both - of_fill for of_both, of_fill in times]

    def _lane(self, stream: int, launch: Callable[[], Any]) -> Lane:
        lane = Lane(self._contexts.driver, self._contexts.call, stream, launch)
        self._timer.prepare(lane)
        return lane

    def _fill_cache(self, stream: int) -> None:
        contexts = self._contexts
        if self._filling is None:
            self._filling = contexts.call(contexts.driver.cuMemAlloc(_FILLING_BYTES))
        contexts.call(contexts.driver.cuMemsetD8Async(self._filling, 0, _FILLING_BYTES, stream))

    def sensors(self) -> dict[str, Any]:
        """Clock, power, and what holds the clock down."""
        state = self._reader.read()
        if state is None:
            return {}
        return {
            "clock_mhz": state.clock_mhz,
            "power_w": state.power_w,
            "throttle_reasons": list(state.throttle_reasons),
        }
