"""Helion's results as measurements."""

import math
from typing import Any

from costmodel.integrations.triton import KernelTimings
from costmodel.records import Candidate, Measurement, Outcome

_PER_SECOND = 1e3  # Helion tells milliseconds
# Helion says "error" of all that fails while it is compiled or run.
_OUTCOMES = {
    "ok": Outcome.OK,
    "deduplicated": Outcome.OK,
    "error": Outcome.LAUNCH_ERROR,
    "timeout": Outcome.TIMEOUT,
    "accuracy_error": Outcome.WRONG_RESULT,
    "peer_compilation_fail": Outcome.COMPILE_ERROR,
    "source_rejected": Outcome.INVALID_CONFIG,
    "filtered": Outcome.INVALID_CONFIG,
}


def fastest(timings: KernelTimings) -> Measurement | None:
    """The measurement of the fastest config; None where none ran."""
    ran = [each for each in timings.known.values() if each.outcome is Outcome.OK]
    return min(ran, key=lambda each: each.latency_s) if ran else None


def measurement_of(timings: KernelTimings, candidate: Candidate, result: Any) -> Measurement:
    """What Helion found out about a candidate."""
    outcome = _OUTCOMES.get(result.status, Outcome.LAUNCH_ERROR)
    if outcome is Outcome.OK and not (math.isfinite(result.perf) and result.perf > 0.0):
        outcome = Outcome.LAUNCH_ERROR
    if outcome is Outcome.OK:
        return timings.made(candidate, outcome, [result.perf / _PER_SECOND])
    return timings.made(candidate, outcome, [], f"Helion told {result.status}, {result.perf} ms")
