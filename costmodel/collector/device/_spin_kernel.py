"""A kernel that spins: it counts the SMs that a stream really has, and holds a stream.

The SM count that the driver reports is verified: the special register ``%smid`` of each block says where it
ran (PTX ISA, "Special Registers"). The kernel is a ``CUkernel``, which belongs to no context: a launch takes
the context of its stream, so one handle serves green contexts and the primary context, and the primary
context stays current (CUDA driver API, ``cuLaunchKernel``).
"""

import ctypes
from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np

from costmodel.collector.device._graph_timer import GraphStopwatch
from costmodel.errors import CostModelError

# Over 20 blocks for each SM of the largest GPU. Each spins for some 10 us, longer than it takes to start them
# all, so that no SM is left out because others were done sooner.
_BLOCKS = 4096
_SPIN_CYCLES = 20_000
_THREADS = 32
# 0.1 ms at 2 GHz: a host needs 10 to 90 us to launch a graph on an idle device.
_HOLD_CYCLES = 200_000
_SOURCE = """
extern "C" __global__ void sm_of_block(unsigned *ids, long long cycles) {
    unsigned sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    ids[blockIdx.x] = sm;
    long long start = clock64();
    while (clock64() - start < cycles) {}
}
"""


@cache
def nvrtc_cubin(architecture: str) -> bytes:
    """The counting kernel for an architecture such as ``sm_90``.

    Raises:
        RuntimeError: NVRTC is missing, or does not know the architecture.
    """
    from cuda.bindings import nvrtc

    def call(result: Any) -> Any:
        error, *values = result
        if error != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise RuntimeError(f"NVRTC for {architecture}: {error.name}")
        return values[0] if values else None

    program = call(nvrtc.nvrtcCreateProgram(_SOURCE.encode(), b"sm_of_block.cu", 0, [], []))
    try:
        call(nvrtc.nvrtcCompileProgram(program, 1, [f"--gpu-architecture={architecture}".encode()]))
        cubin = bytearray(call(nvrtc.nvrtcGetCUBINSize(program)))
        call(nvrtc.nvrtcGetCUBIN(program, cubin))
    finally:
        nvrtc.nvrtcDestroyProgram(program)
    return bytes(cubin)


class SpinKernel:
    """A kernel that spins, each block writing down the SM that it runs on.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        compile_kernel: Gives a cubin for an architecture.

    Raises:
        RuntimeError: The driver or the compiler refuses.
    """

    def __init__(
        self,
        driver: Any,
        call: Callable[[Any], Any],
        compile_kernel: Callable[[str], bytes] = nvrtc_cubin,
    ) -> None:
        self._driver, self._call = driver, call
        cubin = compile_kernel(_architecture(driver, call))
        self._library = call(driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
        self._kernel = driver.CUfunction(int(call(driver.cuLibraryGetKernel(self._library, b"sm_of_block"))))
        self._ids = np.empty(_BLOCKS, np.uint32)
        self._buffer = call(driver.cuMemAlloc(self._ids.nbytes))

    def sm_ids(self, stream: int) -> frozenset[int]:
        """Ids of the SMs that kernels on ``stream`` run on; how many they are is what was granted.

        Launches until a launch finds no SM that an earlier one did not find. Takes under 1 ms.

        Args:
            stream: Handle of a stream of a green context or of the current context.

        Raises:
            RuntimeError: The driver refuses.
        """
        seen: frozenset[int] = frozenset()
        while not (found := self._sm_ids_once(stream)) <= seen:
            seen |= found
        return seen

    def hold(self, stream: int) -> None:
        """Keep a stream busy for a while, so that what is launched next waits there, ready to start."""
        self.launch(stream, _HOLD_CYCLES)

    def launch(self, stream: int, cycles: int, blocks: int = 1) -> None:
        """Put blocks of one warp on a stream that spin for some cycles of their SM; 4,096 at most."""
        self._launch(stream, blocks, cycles)

    def close(self) -> None:
        """Free what it has on the device."""
        self._call(self._driver.cuMemFree(self._buffer))
        self._call(self._driver.cuLibraryUnload(self._library))

    def _sm_ids_once(self, stream: int) -> frozenset[int]:
        self._launch(stream, _BLOCKS, _SPIN_CYCLES)
        # The copy is on the default stream, which does not wait.
        self._call(self._driver.cuStreamSynchronize(stream))
        self._call(self._driver.cuMemcpyDtoH(self._ids.ctypes.data, self._buffer, self._ids.nbytes))
        return frozenset(self._ids.tolist())

    def _launch(self, stream: int, blocks: int, cycles: int) -> None:
        arguments = ((int(self._buffer), cycles), (ctypes.c_void_p, ctypes.c_longlong))
        launch = self._driver.cuLaunchKernel
        self._call(launch(self._kernel, blocks, 1, 1, _THREADS, 1, 1, 0, stream, arguments, 0))


def verify_grant(granted: int, counted: int) -> None:
    """Check that kernels run on as many SMs as the driver said that it granted.

    Raises:
        CostModelError: They do not.
    """
    if granted != counted:
        raise CostModelError(
            f"Kernels must run on the number of SMs that the driver granted, but it granted {granted} and "
            f"they ran on {counted}. An MPS daemon overrides green contexts: unset "
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or stop the daemon, and measure again."
        )


def _architecture(driver: Any, call: Callable[[Any], Any]) -> str:
    """Architecture of the current context's device, such as ``sm_90``."""
    device = call(driver.cuCtxGetDevice())
    keys = driver.CUdevice_attribute
    major = call(driver.cuDeviceGetAttribute(keys.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = call(driver.cuDeviceGetAttribute(keys.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    return f"sm_{major}{minor}"


# 50 kernels that spin for 4 us at 2 GHz: 0.2 ms, which the event clock (0.5 us) tells to 0.25 %.
_LAUNCHES = 50
_CYCLES = 8000


class Pulse:
    """Two graphs of kernels that do nothing for a known number of cycles.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        spin: The kernel.
        stream: Handle of a stream that is not the default one.
    """

    def __init__(self, driver: Any, call: Callable[[Any], Any], spin: SpinKernel, stream: int) -> None:
        hold = partial(spin.hold, stream)
        self._empty, self._busy = (
            GraphStopwatch(driver, call, stream, partial(spin.launch, stream, cycles), hold)
            for cycles in (0, _CYCLES)
        )

    def read(self) -> tuple[float, float]:
        """Cycles that an SM counts in a microsecond, and seconds from one launch in a graph to the next.

        Takes 0.5 ms. The cycles are 0, unknown, where the idle launches took longer than the spinning ones:
        something else had the GPU meanwhile.

        Raises:
            RuntimeError: The driver refuses.
        """
        launch_s = self._empty.time(_LAUNCHES)
        spin_s = self._busy.time(_LAUNCHES) - launch_s
        return (_CYCLES / spin_s * 1e-6 if spin_s > 0 else 0.0), launch_s
