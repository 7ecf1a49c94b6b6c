"""The CPU runner: the host's CPU with a budget of threads."""

from typing import Any

from costmodel.collector.runners._device_runner import DeviceRunner


class CpuRunner(DeviceRunner):
    """Measures on the host's CPU through LLVM. An SM budget is a number of threads.

    Raises:
        CostModelError: If TVM is not installed.
    """

    isolation = "threads"
    _unit = "threads"

    def __init__(self, **settings: Any) -> None:
        """Open the CPU; settings are those of ``DeviceRunner``."""
        super().__init__("cpu", **settings)
