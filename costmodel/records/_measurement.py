"""Measurements: all repeats of one config on one platform, or why there are none."""

from enum import StrEnum
from math import isfinite
from statistics import median
from typing import Literal

import msgspec

from costmodel.failures import is_passing
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._identity import content_id
from costmodel.records._platform import Platform

SCHEMA_VERSION = 2
# In place of candidates, where other processes may have measured on the other SMs.
UNKNOWN_CO_RUNNERS = ("unknown",)


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


class KernelResources(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the compiler gave one kernel, which the lowered program does not tell.

    Attributes:
        registers_per_thread: 32-bit registers of a thread; they limit how many blocks an SM holds.
        stack_bytes: Local memory of a thread: arrays with computed indices, and spilled registers.
    """

    registers_per_thread: int
    stack_bytes: int


class Outcome(StrEnum):
    """How a measurement ended. Failure is an outcome, never a huge latency."""

    OK = "ok"
    INVALID_CONFIG = "invalid_config"
    COMPILE_ERROR = "compile_error"
    LAUNCH_ERROR = "launch_error"
    TIMEOUT = "timeout"
    WRONG_RESULT = "wrong_result"


class Measurement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All repeats of one config on one platform.

    Attributes:
        candidate: The measured candidate.
        platform: The platform on which it was measured.
        outcome: How the measurement ended.
        latencies_s: Latency of one run in seconds, one value per repeat, each the mean of ``runs_per_repeat``
            runs; empty unless the outcome is ok.
        runs_per_repeat: Number of back-to-back runs that each repeat averages over.
        visit: 0 for the first measurement of this candidate on this platform, 1 for the A/A repeat.
        l2_policy: ``warm`` keeps inputs in the cache between runs; ``flushed`` flushes it before each run.
        kernel_hash: Content address of the generated source, if there is one. Candidates with the same hash
            have the same kernel.
        resources: Resources that the compiler gave each kernel, with its name; empty if unknown.
        before: State of the device right before the repeats.
        after: State of the device right after the repeats.
        attempts: Number of attempts until a measurement was not suspicious or was given up.
        board: Short id of the physical board, as there may be several of one device model; empty if unknown.
        co_runners: Candidates that ran on other partitions of the device at the same time;
            ``UNKNOWN_CO_RUNNERS`` if other processes may have run some.
        measured_at: UTC time in ISO 8601; empty if unknown.
        error: First line of the failure's message; empty if the outcome is ok.
        schema_version: Version of this schema.
    """

    candidate: Candidate
    platform: Platform
    outcome: Outcome
    latencies_s: tuple[float, ...] = ()
    runs_per_repeat: int = 0
    visit: int = 0
    l2_policy: Literal["warm", "flushed"] = "warm"
    kernel_hash: str = ""
    resources: tuple[KernelResources, ...] = ()
    before: DeviceState = DeviceState()
    after: DeviceState = DeviceState()
    attempts: int = 1
    board: str = ""
    co_runners: tuple[str, ...] = ()
    measured_at: str
    error: str = ""
    schema_version: int = SCHEMA_VERSION

    def __post_init__(self) -> None:
        """Check what the types cannot say, also when a file is decoded."""
        if self.schema_version != SCHEMA_VERSION:
            raise ValueError(f"schema_version must be {SCHEMA_VERSION}, but got {self.schema_version}")
        if isinstance(self.platform.device, HypotheticalDevice):
            raise ValueError(f"nothing can be measured on {self.platform.device.name}")  # noqa: TRY004
        if (self.outcome is Outcome.OK) != bool(self.latencies_s):
            raise ValueError(f"latencies_s must be given exactly when ok, but outcome is {self.outcome}")
        if self.latencies_s and not (all(map(isfinite, self.latencies_s)) and min(self.latencies_s) > 0.0):
            raise ValueError(f"latencies_s must be positive and finite, but got {self.latencies_s}")

    @property
    def latency_s(self) -> float:
        """Median of the repeats in seconds; infinite unless the outcome is ok."""
        return median(self.latencies_s) if self.latencies_s else float("inf")

    @property
    def is_passing(self) -> bool:
        """Whether it failed for want of something that may be there the next time; see ``failures``."""
        return is_passing_failure(self.outcome, self.error)

    @property
    def key(self) -> str:
        """Content address of candidate, platform, visit and co-running: each is measured only once."""
        return measurement_key(self.candidate, self.platform, self.visit, co_run=bool(self.co_runners))


def is_passing_failure(outcome: Outcome, error: str) -> bool:
    """Tell whether an outcome says nothing of the kernel, see ``costmodel.failures``."""
    return outcome in (Outcome.COMPILE_ERROR, Outcome.LAUNCH_ERROR) and is_passing(error)


def measurement_key(candidate: Candidate, platform: Platform, visit: int = 0, *, co_run: bool = False) -> str:
    """Return the key of the measurement of a candidate on a platform, alone or co-running with others."""
    company = ("co-run",) if co_run else ()
    return content_id(candidate.candidate_id, platform.platform_id, visit, *company)
