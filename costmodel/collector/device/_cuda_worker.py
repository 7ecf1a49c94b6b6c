"""One NVIDIA GPU, partitioned by green contexts or confined by MPS."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from costmodel.collector.device._co_run import time_side_by_side
from costmodel.collector.device._cubin_runtime import CubinRuntime
from costmodel.collector.device._cuda_device import StateReader, describe_cuda, pci_bus_id
from costmodel.collector.device._graph_timer import GraphStopwatch
from costmodel.collector.device._green_context import GreenContexts
from costmodel.collector.device._job import KernelJob
from costmodel.collector.device._pace import Pace
from costmodel.collector.device._runtimes import Kernel, Runtime, TorchRuntime, TvmRuntime
from costmodel.collector.device._spin_kernel import Pulse, SpinKernel, verify_grant
from costmodel.collector.device._timing import Timed
from costmodel.collector.device._worker import DeviceWorker
from costmodel.records._measurement import DeviceState
from costmodel.records._platform import Device


class CudaWorker(DeviceWorker):
    """The first GPU that this process sees.

    Args:
        artifacts: How the files of the kernels end that will be timed.
        confined: Whether MPS confines the process: a budget is then what the process has, and partitions
            cannot be made.
    """

    def __init__(self, artifacts: Sequence[str], *, confined: bool) -> None:
        self._contexts = GreenContexts()
        self._counted: set[range] = set()
        super().__init__(artifacts)
        self._confined = confined
        self._spin = SpinKernel(self._contexts.driver, self._contexts.call)
        self.physical_device = pci_bus_id(self._contexts.driver, self._contexts.call)
        self._reader = StateReader(self.physical_device)
        self.board = self._reader.board_id()
        (whole, *_), _ = self._streams(self._contexts.total_sms)
        self._pulse = Pulse(self._contexts.driver, self._contexts.call, self._spin, whole)
        self.enter(self._contexts.total_sms)

    def describe(self) -> tuple[Device, dict[str, str]]:
        """The GPU, and the versions that can change its latencies."""
        return describe_cuda(self._contexts.total_sms, self.software)

    def open_runtime(self, artifact: str) -> Runtime:
        """TVM, PyTorch, or the driver alone."""
        if artifact == ".cubin":
            return CubinRuntime(self._contexts.driver, self._contexts.call)
        return TorchRuntime("cuda") if artifact == ".torch.json" else TvmRuntime("cuda")

    def grant(self, sms: int) -> int:
        """The number of SMs that kernels run on: counted, and compared with what a green context grants."""
        (stream, *_), granted = self._streams(sms)
        counted = len(self._spin.sm_ids(stream))
        if self._confined:
            return counted
        verify_grant(granted, counted)
        return granted

    def enter(self, sms: int) -> None:
        """Launch what follows on a partition of ``sms`` SMs, or on the lane of the job."""
        if self.lane is None:
            (self._stream, *_), _ = self._streams(sms)
        else:
            self._stream = self._lane_stream(self.lane)
        self.runtime.use_stream(self._stream)

    def sm_ids(self, lane: range) -> frozenset[int]:
        """Ids of the SMs that kernels of a lane run on, as the device counts them."""
        return self._spin.sm_ids(self._contexts.lane(lane))

    def _lane_stream(self, lane: range) -> int:
        """A stream on a lane that has as many SMs as it should."""
        if lane not in self._counted:
            verify_grant(len(lane), len(self.sm_ids(lane)))
            self._counted.add(lane)
        return self._contexts.lane(lane)

    def _streams(self, sms: int, partitions: int = 1) -> tuple[list[int], int]:
        return self._contexts.streams(self._contexts.total_sms if self._confined else sms, partitions)

    def stopwatch(self, kernel: Kernel, arguments: list[Any]) -> GraphStopwatch:
        """What times a kernel on the partition that is entered."""
        return self._stopwatch(kernel, self._stream, arguments)

    def _stopwatch(self, kernel: Kernel, stream: int, arguments: list[Any]) -> GraphStopwatch:
        launch = partial(kernel, *arguments)
        hold = partial(self._spin.hold, stream)
        return GraphStopwatch(self._contexts.driver, self._contexts.call, stream, launch, hold)

    def synchronize(self) -> None:
        """Wait for copies and kernels on every stream of the device."""
        self._contexts.synchronize()

    def state(self) -> DeviceState:
        """What the sensors say now, and how fast the device is: on a lane that would be in others' way."""
        if self.lane is not None:
            return self._sensors()
        spin_clock_mhz, launch_s = self._pulse.read()
        return replace(self._sensors(), spin_clock_mhz=round(spin_clock_mhz, 1), launch_s=launch_s)

    def _sensors(self) -> DeviceState:
        """What the sensors say now: that disturbs no kernel."""
        return self._reader.read() or DeviceState()

    def time_together(self, kernels: Mapping[str, Kernel], sms: int, job: KernelJob) -> dict[str, Timed]:
        """Time kernels on ``job.partitions`` disjoint partitions of ``sms`` SMs at once."""
        streams, _ = self._streams(sms, job.partitions)
        copies = self.data.copies(job.partitions)
        lanes = [partial(self._lane, *lane) for lane in zip(streams, copies, strict=True)]
        self.synchronize()
        timed = time_side_by_side(kernels, lanes, job.timing, Pace(self._sensors))
        return {name: self.locate(each) for name, each in timed.items()}

    def _lane(self, stream: int, arguments: list[Any], kernel: Kernel) -> GraphStopwatch:
        """A stopwatch for one partition in this thread, which has its own raw stream and current context."""
        self._contexts.make_current()
        self.runtime.use_stream(stream)
        return self._stopwatch(kernel, stream, arguments)
