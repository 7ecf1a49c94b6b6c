"""A measurement: all repeats of one config on one platform, or why there are none."""

from enum import StrEnum
from math import isfinite
from statistics import median
from typing import Literal

import msgspec

from costmodel.records._candidate import Candidate
from costmodel.records._device_state import DeviceState
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._identity import content_id
from costmodel.records._kernel_resources import KernelResources
from costmodel.records._platform import Platform

SCHEMA_VERSION = 2
# In place of candidates, where other processes may have measured on the other SMs.
UNKNOWN_CO_RUNNERS = ("unknown",)


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
        candidate: What was measured.
        platform: Where.
        outcome: How it ended.
        latencies_s: Seconds of one run, one number a repeat, each the mean of ``runs_per_repeat`` runs; empty
            unless the outcome is ok.
        runs_per_repeat: Back-to-back runs that each repeat averages over.
        visit: 0 for the first time this candidate met this platform, 1 for the A/A repeat.
        l2_policy: ``warm``: inputs stay in the cache between runs; ``flushed``: it is flushed before each.
        kernel_hash: Content address of the generated source, where there is one: candidates with the same
            hash are the same kernel.
        resources: What the compiler gave each kernel, by name; empty where that is not known.
        before: The device right before the repeats.
        after: The device right after them.
        attempts: How often it was measured until it was not suspicious, or given up.
        board: Short id of the physical board, empty where unknown: one device model, several boards.
        co_runners: Candidates that ran on other partitions of the device meanwhile; ``UNKNOWN_CO_RUNNERS``
            where other processes may have run some.
        measured_at: UTC time, ISO 8601; empty where unknown.
        error: First line of the failure's message; empty when ok.
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
        """Median of the repeats in seconds; infinite when the outcome is not ok."""
        return median(self.latencies_s) if self.latencies_s else float("inf")

    @property
    def key(self) -> str:
        """Content address of candidate, platform, visit and company: measured once, never again."""
        return measurement_key(self.candidate, self.platform, self.visit, co_run=bool(self.co_runners))


def measurement_key(candidate: Candidate, platform: Platform, visit: int = 0, *, co_run: bool = False) -> str:
    """Key that the measurement of this candidate on this platform will have, alone or beside others."""
    company = ("co-run",) if co_run else ()
    return content_id(candidate.candidate_id, platform.platform_id, visit, *company)
