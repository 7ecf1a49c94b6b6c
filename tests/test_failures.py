"""Which failures pass, and the line that states a failure."""

import pytest

from costmodel.failures import is_passing, last_line

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize(
    "message",
    [
        "Triton Error [CUDA]: out of memory",
        "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB",
        "cuModuleLoadData failed with CUDA_ERROR_OUT_OF_MEMORY",
        "cudaErrorMemoryAllocation: out of memory",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "HIP error: hipErrorOutOfMemory",
        "NVRTC_ERROR_OUT_OF_MEMORY",
        "LLVM ERROR: out of memory",
        "ptxas fatal   : Memory allocation failure",
        "terminate called after throwing an instance of 'std::bad_alloc'",
        "MemoryError",
        "[Errno 12] Cannot allocate memory",
        "CUDA error: all CUDA-capable devices are busy or unavailable",
        "CUDA-capable device(s) is/are busy or unavailable",
        "CUDA_ERROR_DEVICE_UNAVAILABLE",
        "CUDA error: exclusive-thread device already in use by a different thread",
        "cudaErrorDeviceAlreadyInUse",
        "CUDA_ERROR_SYSTEM_NOT_READY",
        "CUDA_ERROR_MPS_MAX_CLIENTS_REACHED",
        "cudaErrorMpsServerNotReady",
        "uncorrectable ECC error encountered",
        "[Errno 28] No space left on device: '/tmp/k.cubin'",
        "(sqlite3.OperationalError) database or disk is full",
        "(sqlite3.OperationalError) database is locked",
        "[Errno 11] Resource temporarily unavailable",
        "[Errno 24] Too many open files",
        "the device worker died (exit code -9)",
        "the compiler ended its process with SIGKILL",
        "g++: fatal error: Killed signal terminated program cc1plus",
    ],
)
def test_failures_of_the_moment_pass(message: str) -> None:
    assert is_passing(message)


@pytest.mark.parametrize(
    "message",
    [
        "",
        "out of resource: shared memory, Required: 262144, Hardware limit: 232448",
        "out of resource: tensor memory, Required: 768, Hardware limit: 512",
        "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
        "CUDA error: too many resources requested for launch",
        "CUDA error: an illegal memory access was encountered",
        "CUDA_ERROR_ILLEGAL_ADDRESS",
        "CUDA error: misaligned address",
        "CUDA error: unspecified launch failure",
        "CUDA error: invalid device function",
        "ptxas error: Register allocation failed with register count of '64'",
        "ptxas error   : Entry function 'f' uses too much shared data (0x10400 bytes, 0xc000 max)",
        "the compiler ended its process with SIGSEGV: Assertion failed",
        "the device worker died (exit code -11)",
        "the device worker died (exit code 1)",
        "it took more than 30 s on the device",
        "output differs from the reference",
        "tile_bad_allocation is no parameter",
    ],
)
def test_faults_of_a_kernel_do_not_pass(message: str) -> None:
    assert not is_passing(message)


def test_the_line_that_states_a_failure_is_kept() -> None:
    """PyTorch says last how to find out more, and an error may say nothing but its type."""
    advice = "Search for `cudaErrorMemoryAllocation'.\nCompile with `TORCH_USE_CUDA_DSA` to debug."
    assert last_line(RuntimeError(f"CUDA error: out of memory\n{advice}")) == "CUDA error: out of memory"
    assert last_line(MemoryError()) == "MemoryError"
    assert last_line(type("OutOfMemoryError", (RuntimeError,), {})("full")) == "OutOfMemoryError: full"
