"""Failures of a kernel, told in one line, and whether they say anything of the kernel.

A *passing* failure is one of the moment: somebody else had the memory, the device or the disk. The next
attempt may succeed, so that nobody may remember it of a config. All other failures are lasting.
"""

import re

# What the CUDA driver, HIP, their libraries and compilers, PyTorch, Python and the operating system call it,
# in lower case, with a space for each sign between two words.
_PASSING = (
    # memory of the device or the host
    "out of memory",
    "outofmemory",
    "outofmemoryerror",
    "memoryerror",
    "cudaerrormemoryallocation",
    "hiperroroutofmemory",
    "cannot allocate memory",
    "memory allocation failed",
    "memory allocation failure",
    "virtual memory exhausted",
    "status alloc failed",
    "bad alloc",
    # the device is somebody else's, or not ready
    "busy or unavailable",
    "device already in use",
    "exclusive (process|thread) device",
    "cudaerrordevicealreadyinuse",
    "device unavailable",
    "devices unavailable",
    "cudaerrordevicesunavailable",
    "system not yet initialized",
    "system not ready",
    "cudaerrorsystemnotready",
    "mps (client|connection|max|rpc|server)",
    r"cudaerrormps\w+",
    "gpu is lost",
    "ecc error",
    "ecc uncorrectable",
    # the machine
    "resource temporarily unavailable",
    "device or resource busy",
    "no space left on device",
    "disk is full",
    "database is locked",
    "disk quota exceeded",
    "too many open files",
    "connection refused",
    "connection reset",
    # a process that was ended from outside: the system does so where memory is short
    "killed signal terminated program",
    "sigkill",
    "sigterm",
    "exit code 9",
    "exit code 15",
    "exit code 137",
    "exit code 143",
)
_IS_PASSING = re.compile(rf"\b({'|'.join(_PASSING)})\b")
_MOST = 300  # characters of a line that are kept


def is_passing(message: str) -> bool:
    """Tell whether a message is of a passing failure.

    Args:
        message: What a compiler, driver, library or system said of a failure, or the name of its error.

    Example:
        >>> is_passing("Triton Error [CUDA]: out of memory")
        True
        >>> is_passing("out of resource: shared memory, Required: 262144, Hardware limit: 232448")
        False
    """
    return _IS_PASSING.search(re.sub(r"[\W_]+", " ", message.lower())) is not None


def last_line(error: BaseException) -> str:
    """Return the line of a message that states the error: the last, where TVM and compilers do.

    The linker command that TVM repeats after that line is skipped, and so is what PyTorch advises after the
    line of a passing failure.
    """
    lines = [line.strip(" \t\0") for line in str(error).splitlines()]
    said = [line for line in lines if line and not line.startswith("Command line:")]
    kind = type(error).__name__
    line = next(filter(is_passing, said), said[-1] if said else kind)
    if is_passing(kind) and not is_passing(line):
        line = f"{kind}: {line}"
    return line[:_MOST]
