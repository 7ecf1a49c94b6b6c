"""The runners of this machine: an NVIDIA GPU, whole or partitioned by green contexts, and the CPU."""

import os
import threading
from collections.abc import Sequence
from importlib.util import find_spec

from costmodel.collector.device._job import DeviceSetup
from costmodel.collector.runners._device_runner import DeviceRunner
from costmodel.collector.runners._mps import MpsDaemon, check_shared_daemon, percentage_of
from costmodel.errors import MissingExtraError
from costmodel.kernels._machine_code import MachineCode, machine_code
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform


def _visible_device(position: int) -> str:
    """How CUDA is told to see only the device at ``position`` among those that this process may use."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    return visible.split(",")[position] if visible else str(position)


class CudaRunner(DeviceRunner):
    """Measures on the first visible NVIDIA GPU. An SM budget is a green context.

    The driver rounds a budget up to what it can grant (on Hopper a multiple of 8), and the granted number is
    recorded. ``platform(sms, "mps")`` is a share of the SMs under MPS instead: the runner starts a daemon of
    its own for the first such platform and ends it on closing. With ``lanes``, several processes measure at
    once, each on its own SMs. This requires an MPS daemon that serves them all and limits none of them.

    Raises:
        CostModelError: If there is no GPU, or TVM or cuda-bindings is not installed.
    """

    kind = "cuda"
    isolation = "green_context"
    _daemon: MpsDaemon | None = None
    _starting = threading.Lock()

    def machine_code(self, candidates: Sequence[Candidate]) -> list[MachineCode | None]:
        """Build the candidates, in parallel, and count what is in each; measuring them builds none again.

        A builder on a host without a driver leaves the machine code of TVM's kernels to whoever loads them:
        where that shows of the first ones, no others are built.
        """
        first, others = candidates[: self.in_flight], candidates[self.in_flight :]
        found = self._count(first)
        return found + (self._count(others) if any(found) else [None] * len(others))

    def _count(self, candidates: Sequence[Candidate]) -> list[MachineCode | None]:
        self.prefetch(candidates)
        libraries = [self._builders.built(each)[0].library for each in candidates]
        return [machine_code(each.read_bytes()) if each else None for each in libraries]

    def close(self) -> None:
        """End the workers, then the MPS daemon, and delete temporary files."""
        super().close()
        if self._daemon:
            self._daemon.close()

    def _check_machine(self) -> None:
        if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
            raise MissingExtraError("Measuring on an NVIDIA GPU", "cuda")
        if self._lanes:
            check_shared_daemon()
        super()._check_machine()

    def _setup(self, position: int, platform: Platform | None = None) -> DeviceSetup:
        environment = {"CUDA_VISIBLE_DEVICES": _visible_device(position)}
        confined = platform is not None and platform.isolation == "mps"
        if confined:
            assert platform is not None
            with self._starting:
                self._daemon = self._daemon or MpsDaemon()
            share = percentage_of(platform.sms_requested, platform.device.sms)
            environment |= self._daemon.environment(share)
        return DeviceSetup("cuda", self._threads, confined, tuple(environment.items()), self._artifacts)

    def _cannot_open(self, error: Exception) -> str:
        return (
            f"The cuda runner must have an NVIDIA GPU with a driver for CUDA 13, but none can be opened here "
            f"({error}). Use the cpu runner for TVM kernels, or replay recorded measurements with `costmodel "
            "tune`."
        )


class CpuRunner(DeviceRunner):
    """Measures on the host's CPU through LLVM. An SM budget is a number of threads.

    Raises:
        CostModelError: If TVM is not installed.
    """

    kind = "cpu"
    isolation = "threads"
    _unit = "threads"
