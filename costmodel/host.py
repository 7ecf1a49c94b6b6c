"""Information from the operating system about this machine."""

import os
from contextlib import suppress
from pathlib import Path


def cpu_threads() -> int:
    """Return the number of hardware threads that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """Return the CPU's model if the kernel reports it; else an empty string."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return ""
