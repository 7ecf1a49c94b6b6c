"""The CPU runner: the host's CPU with a budget of threads."""

from costmodel.collector.runners._device_runner import DeviceRunner


class CpuRunner(DeviceRunner):
    """Measures on the host's CPU through LLVM. An SM budget is a number of threads.

    Raises:
        CostModelError: If TVM is not installed.
    """

    kind = "cpu"
    isolation = "threads"
    _unit = "threads"
