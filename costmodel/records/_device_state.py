"""The state of a device at one moment."""

import msgspec


class DeviceState(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Sensor readings of a device at one moment; 0 or empty if unknown.

    Attributes:
        clock_mhz: Clock of the SMs, as reported by the driver.
        spin_clock_mhz: Actual clock of an SM, from the cycles that it counts per microsecond.
        launch_s: Seconds between two launches of an empty kernel in a CUDA graph.
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
