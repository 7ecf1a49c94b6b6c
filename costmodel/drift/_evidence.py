"""How likely a log ratio is if times drifted, relative to how likely it is if they did not."""

from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray

# Drifts that are looked for, as factors on latencies, and their inverses.
_FACTORS = np.array([1.08, 1.15, 1.25, 1.4, 1.7, 2.5])
LOG_DRIFTS: FloatArray = np.concatenate([-np.log(_FACTORS)[::-1], np.log(_FACTORS)])
_FREEDOM = 4.0  # of Student's t: now and then a ratio is far off without any drift
_MOST = np.log(100.0)  # one record alone says no more than this: a single outlier is no drift
_LARGE = 3.0  # spreads


@dataclass(frozen=True)
class Surprise:
    """By how much a log latency differs from what earlier records let expect.

    Attributes:
        value: The difference; 0 up to its spread where nothing drifted.
        spread: Its scale.
        against: ``(m,)`` numbers of the records that it is compared with, in increasing order, m >= 1.
    """

    value: float
    spread: float
    against: FloatArray

    @property
    def is_large(self) -> bool:
        """Whether noise alone is hardly so large."""
        return abs(self.value) > _LARGE * self.spread

    def before(self, onsets: FloatArray) -> FloatArray:
        """``(o,)`` share of the records it is compared with that came before each onset of a drift.

        That share of a drift since then is in ``value``.
        """
        return np.searchsorted(self.against, onsets) / self.against.size

    def log_likelihood_ratio(self, onsets: FloatArray) -> FloatArray:
        """``(o, d)`` log likelihood under an onset and one of the d ``LOG_DRIFTS`` over that under none."""
        expected = np.outer(self.before(onsets), LOG_DRIFTS)
        drifted = np.log1p(((self.value - expected) / self.spread) ** 2 / _FREEDOM)
        ratio = np.log1p((self.value / self.spread) ** 2 / _FREEDOM) - drifted
        return np.asarray(np.minimum(0.5 * (_FREEDOM + 1.0) * ratio, _MOST))
