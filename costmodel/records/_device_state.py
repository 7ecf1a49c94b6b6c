"""The state of a device at one moment."""

import msgspec


class DeviceState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a device's sensors say at one moment; 0 and empty where they say nothing.

    Attributes:
        clock_mhz: Clock of the SMs, as the driver says it.
        spin_clock_mhz: Cycles that an SM counts in a microsecond: the clock that it really runs at.
        launch_s: Seconds from one launch of a kernel that does nothing to the next, in a CUDA graph.
        memory_clock_mhz: Clock of the device memory.
        temperature_c: Temperature of the chip in degrees Celsius.
        power_w: Power that the board draws, in watts.
        throttle_reasons: Why the clock is held below what it could be, such as ``sw_power_cap``.
    """

    clock_mhz: float = 0.0
    spin_clock_mhz: float = 0.0
    launch_s: float = 0.0
    memory_clock_mhz: float = 0.0
    temperature_c: float = 0.0
    power_w: float = 0.0
    throttle_reasons: tuple[str, ...] = ()
