"""Tells when live measurements leave what was promised of them."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Reason = Literal["below", "above", "slower", "faster"]


@dataclass(frozen=True)
class Alarm:
    """Why a monitor raised an alarm.

    Attributes:
        reason: ``below`` or ``above``: too many measurements leave the interval on this side. ``slower`` or
            ``faster``: too many lie on this side of the prediction.
        measurements: How many were fed.
        evidence: Of the reason, relative to what raises an alarm.
    """

    reason: Reason
    measurements: int
    evidence: float


class DriftMonitor:
    """Watches predictions beside measurements, fed one by one.

    Four promises are watched: each side of the interval is left by at most ``(1 - level) / 2`` of the
    measurements, and at most ``0.5 + tolerance`` of them are slower, or faster, than predicted. For each, a
    Shiryaev-Roberts statistic ``R <- (1 + R) * e`` adds up the evidence of a break at any time so far, with e
    the likelihood ratio of a broken promise (a mixture of rates) to one just kept. As long as all are kept,
    ``E[R]`` after n measurements is at most n for any dependence of the measurements on the past, so that the
    mean of the four exceeds ``run_length`` within n measurements with probability at most ``n / run_length``
    (Shin, Ramdas and Rinaldo, "E-detectors", arXiv:2203.03532, 2023; Doob's inequality).

    Args:
        level: Share of measurements within their interval.
        tolerance: By how much the share of those slower than predicted may differ from one half.
        run_length: Least mean number of measurements until a false alarm.

    Example:
        >>> monitor = DriftMonitor(run_length=100)
        >>> for _ in range(20):
        ...     alarm = monitor.add(predicted_s=1.0, low_s=0.8, high_s=1.2, measured_s=2.0)
        ...     if alarm:
        ...         break
        >>> alarm.reason, alarm.measurements
        ('above', 3)
    """

    def __init__(self, *, level: float = 0.9, tolerance: float = 0.1, run_length: float = 1000.0) -> None:
        if not 0.0 < level < 1.0 or not 0.0 <= tolerance < 0.5 or run_length <= 1.0:
            raise ValueError(
                "0 < level < 1, 0 <= tolerance < 0.5 and run_length > 1 must hold, "
                f"but got {level}, {tolerance} and {run_length}"
            )
        self.run_length = run_length
        miss, side = (1.0 - level) / 2, 0.5 + tolerance
        self._kept: dict[Reason, float] = {"below": miss, "above": miss, "slower": side, "faster": side}
        self._broken = {reason: _broken_rates(rate) for reason, rate in self._kept.items()}
        self.reset()

    def reset(self) -> None:
        """Forget all that was fed, as after a recalibration."""
        self.measurements = 0
        self._evidence = {reason: np.zeros(len(rates)) for reason, rates in self._broken.items()}

    def add(self, *, predicted_s: float, low_s: float, high_s: float, measured_s: float) -> Alarm | None:
        """Take in one measurement; the alarm as long as there is one.

        Args:
            predicted_s: Predicted latency in seconds; one that is measured exactly counts for no side.
            low_s: Lower end of the interval.
            high_s: Upper end of the interval.
            measured_s: Measured latency; inf for a failure, which is above everything.

        Raises:
            ValueError: A value is NaN, or the interval does not hold the prediction.
        """
        if not low_s <= predicted_s <= high_s or np.isnan(measured_s):
            raise ValueError(
                "low_s <= predicted_s <= high_s must hold and measured_s be no NaN, "
                f"but got {low_s}, {predicted_s}, {high_s} and {measured_s}"
            )
        events: dict[Reason, bool] = {
            "below": measured_s < low_s,
            "above": measured_s > high_s,
            "slower": measured_s > predicted_s,
            "faster": measured_s < predicted_s,
        }
        self.measurements += 1
        for reason, happened in events.items():
            kept, broken = self._kept[reason], self._broken[reason]
            ratio = broken / kept if happened else (1.0 - broken) / (1.0 - kept)
            self._evidence[reason] = (1.0 + self._evidence[reason]) * ratio
        return self.alarm

    @property
    def alarm(self) -> Alarm | None:
        """The alarm, or None while the evidence does not suffice."""
        evidence = {reason: float(each.mean()) / self.run_length for reason, each in self._evidence.items()}
        if sum(evidence.values()) / len(evidence) < 1.0:
            return None
        reason = max(evidence, key=lambda name: evidence[name])
        return Alarm(reason, self.measurements, evidence[reason])


def _broken_rates(kept: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Rates between a kept promise and certainty that a break may have, evenly in log odds."""
    odds = np.log(kept / (1.0 - kept))
    rates = 1.0 / (1.0 + np.exp(-np.linspace(odds, max(odds + 4.0, 4.0), 7)[1:]))
    return np.asarray(rates)
