"""Latencies known on one platform, carried over to another that may be hypothetical, and their intervals."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.features._latency_parts import LatencyParts, PartSettings, latency_parts
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import QUANTITIES
from costmodel.records._platform import Platform

# Of a kernel that is faster than its start and its traffic should be, this share is work of its SMs.
_LEAST_WORK = 0.1


@dataclass(frozen=True)
class Carried:
    """Latencies on other hardware.

    Attributes:
        latency_s: ``(n,)`` seconds.
        distances: ``(n, 3)`` how other the hardware is: whether it is, |log| of the ratio of the SMs' work,
            and that of the bandwidths times the share of the latency that traffic to device memory has.
    """

    latency_s: FloatArray
    distances: FloatArray


def carry_over(
    latency_s: FloatArray,
    candidates: Sequence[Candidate],
    known: Sequence[Platform],
    to: Sequence[Platform],
    settings: PartSettings = PartSettings(),  # noqa: B008 (frozen)
) -> Carried:
    """Latencies of kernels on ``to[i]`` that take ``latency_s[i]`` on ``known[i]``.

    Launches take the same, traffic goes with cache and bandwidth, and what is left with the work of the SMs,
    see ``latency_parts``. A latency does not rise with SMs, clock, bandwidth, cache or rates of ``to``, and
    on the platform that it is known on it is itself.

    Args:
        latency_s: ``(n,)`` measured or predicted seconds.
        candidates: The n kernels.
        known: Where they take this.
        to: Where else.
        settings: What all kernels share.
    """
    before = latency_parts(candidates, known, settings)
    return carry_parts(latency_s, before, latency_parts(candidates, to, settings), known, to)


def carry_parts(
    latency_s: FloatArray,
    before: LatencyParts,
    after: LatencyParts,
    known: Sequence[Platform],
    to: Sequence[Platform],
) -> Carried:
    """See ``carry_over``: latencies of kernels whose parts are known on both platforms."""
    believed = _believed(before, latency_s)
    work_s = latency_s - believed * (before.start_s + before.memory_s)
    ratio = after.work / before.work
    carried = believed * (after.start_s + after.memory_s) + work_s * ratio
    pairs = list(zip(known, to, strict=True))
    other = np.array([_means(a) != _means(b) for a, b in pairs], dtype=np.float64)
    bandwidth = np.abs(np.log([_bandwidth_ratio(a, b) for a, b in pairs]))
    memory_share = believed * before.memory_s / latency_s
    return Carried(carried, np.column_stack([other, np.abs(np.log(ratio)), memory_share * bandwidth]))


def _believed(parts: LatencyParts, latency_s: FloatArray) -> FloatArray:
    """``(n,)`` what to take start and traffic times, so that they leave some of the latency to the SMs."""
    return np.minimum(1.0, (1.0 - _LEAST_WORK) * latency_s / (parts.start_s + parts.memory_s))


def _means(platform: Platform) -> tuple[float, ...]:
    """All that makes a kernel fast or slow there."""
    return (platform.sms_granted, *(getattr(platform.device, name) for name in QUANTITIES if name != "sms"))


def _bandwidth_ratio(known: Platform, to: Platform) -> float:
    """Bandwidth there over that here; 1 where one of them is unknown."""
    here, there = known.device.bandwidth_gb_s, to.device.bandwidth_gb_s
    return there / here if here and there else 1.0


# Kernels on the very hardware that they are known on are off by noise, of which there is always some.
_LEAST = 0.01


@dataclass(frozen=True)
class Spread:
    """Quantiles of log(measured / carried over), in units that grow with how other the hardware is.

    The unit is linear in what changes, see ``Carried.distances``: split conformal prediction with normalised
    residuals (Lei et al., JASA 113, 2018, section 5.2).

    Attributes:
        weights: Of 1 and of the distances, not negative.
        low: Quantile at the lower end, in these units.
        high: The one at the upper end.
    """

    weights: tuple[float, ...]
    low: float
    high: float

    @classmethod
    def fitted(cls, distances: FloatArray, log_error: FloatArray, level: float = 0.9) -> Self:
        """From errors that are known.

        Args:
            distances: ``(n, 3)`` how other the hardware was.
            log_error: ``(n,)`` log(measured / carried over); what is not finite does not count.
            level: Share of the errors between the two ends.
        """
        from scipy.optimize import nnls

        known = np.isfinite(log_error)
        distances, log_error = distances[known], log_error[known]
        weights, _ = nnls(distances, np.abs(log_error))
        weights[0] = max(weights[0], _LEAST)
        low, high = np.quantile(log_error / (distances @ weights), [(1 - level) / 2, (1 + level) / 2])
        return cls(tuple(weights.tolist()), float(low), float(high))

    def ends(self, distances: FloatArray) -> tuple[FloatArray, FloatArray]:
        """``(n,)`` log of the factors from a latency to the ends of its interval, which holds the latency."""
        unit = distances @ np.array(self.weights)
        return unit * min(self.low, 0.0), unit * max(self.high, 0.0)
