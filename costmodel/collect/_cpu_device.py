"""What the operating system says of the CPU."""

import os
import platform

from costmodel.records import Device


def cpu_threads() -> int:
    """Hardware threads that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def describe_cpu() -> Device:
    """The host's CPU; an SM is a hardware thread."""
    import psutil  # type: ignore[import-untyped]  # comes with the tvm extra

    frequency = psutil.cpu_freq()
    return Device(
        name=_model_name(),
        kind="cpu",
        architecture=platform.machine(),
        sms=cpu_threads(),
        clock_mhz=float(frequency.max or frequency.current) if frequency else 0.0,
    )


def _model_name() -> str:
    """The CPU's model, from the kernel where it says it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 (a device file, not a path of ours)
            names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    except OSError:
        names = []
    return names[0] if names else platform.processor() or "unknown CPU"
