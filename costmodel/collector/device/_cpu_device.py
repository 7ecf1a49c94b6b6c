"""The host's CPU as a device."""

import platform

from costmodel.host import cpu_model, cpu_threads
from costmodel.records._platform import Device


def describe_cpu() -> Device:
    """The host's CPU; an SM is a hardware thread."""
    import psutil  # type: ignore[import-untyped]  # comes with the tvm extra

    frequency = psutil.cpu_freq()
    return Device(
        name=cpu_model() or platform.processor() or "unknown CPU",
        kind="cpu",
        architecture=platform.machine(),
        sms=cpu_threads(),
        clock_mhz=float(frequency.max or frequency.current) if frequency else 0.0,
    )
