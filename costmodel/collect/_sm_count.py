"""Counts the SMs that a stream's kernels really run on. Runs in the device worker.

What a driver says that it granted is a claim; the special register ``%smid`` of each block is what happened
(PTX ISA, "Special Registers"). The kernel is a ``CUkernel``, which belongs to no context: a launch takes the
context of its stream, so one handle serves green contexts and the primary context, and the primary context
stays current (CUDA driver API, ``cuLaunchKernel``).
"""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import numpy as np

from costmodel.errors import CostModelError

# Over 20 blocks for each SM of the largest GPU. Each spins for some 10 us, longer than it takes to start them
# all, so that no SM is left out because others were done sooner.
_BLOCKS = 4096
_SPIN_CYCLES = 20_000
_THREADS = 32
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


def sm_ids(
    driver: Any,
    call: Callable[[Any], Any],
    stream: int,
    compile_kernel: Callable[[str], bytes] = nvrtc_cubin,
) -> frozenset[int]:
    """Ids of the SMs that kernels on ``stream`` run on; how many they are is what was granted.

    Launches until a launch finds no SM that an earlier one did not find. Takes under 1 ms and, at the first
    call of a process, a compilation.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        stream: Handle of a stream of a green context or of the current context.
        compile_kernel: Gives a cubin for an architecture.

    Raises:
        RuntimeError: The driver or the compiler refuses.
    """
    seen: frozenset[int] = frozenset()
    with ExitStack() as cleanup:
        for found in _launches(driver, call, stream, compile_kernel(_architecture(driver, call)), cleanup):
            if found <= seen:
                break
            seen |= found
    return seen


def verify_grant(granted: int, counted: int) -> None:
    """Check that kernels run on as many SMs as the driver said that it granted.

    Raises:
        CostModelError: They do not.
    """
    if granted != counted:
        raise CostModelError(
            f"Kernels must run on as many SMs as the driver granted, but it granted {granted} and they ran "
            f"on {counted}. An MPS daemon overrides green contexts: unset CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, "
            "or stop the daemon, and measure again."
        )


def _launches(
    driver: Any, call: Callable[[Any], Any], stream: int, cubin: bytes, cleanup: ExitStack
) -> Iterator[frozenset[int]]:
    """SM ids of one launch after another."""
    library = call(driver.cuLibraryLoadData(cubin, [], [], 0, [], [], 0))
    cleanup.callback(driver.cuLibraryUnload, library)
    kernel = driver.CUfunction(int(call(driver.cuLibraryGetKernel(library, b"sm_of_block"))))
    ids = np.empty(_BLOCKS, np.uint32)
    buffer = call(driver.cuMemAlloc(ids.nbytes))
    cleanup.callback(driver.cuMemFree, buffer)
    arguments = ((int(buffer), _SPIN_CYCLES), (ctypes.c_void_p, ctypes.c_longlong))
    while True:
        call(driver.cuLaunchKernel(kernel, _BLOCKS, 1, 1, _THREADS, 1, 1, 0, stream, arguments, 0))
        call(driver.cuStreamSynchronize(stream))  # the copy is on the default stream, which does not wait
        call(driver.cuMemcpyDtoH(ids.ctypes.data, buffer, ids.nbytes))
        yield frozenset(ids.tolist())


def _architecture(driver: Any, call: Callable[[Any], Any]) -> str:
    """Architecture of the current context's device, such as ``sm_90``."""
    device = call(driver.cuCtxGetDevice())
    keys = driver.CUdevice_attribute
    major = call(driver.cuDeviceGetAttribute(keys.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device))
    minor = call(driver.cuDeviceGetAttribute(keys.CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device))
    return f"sm_{major}{minor}"
