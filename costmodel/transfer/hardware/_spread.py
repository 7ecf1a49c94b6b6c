"""How far latencies are off that were carried over to other hardware, and intervals that say so."""

from dataclasses import dataclass
from typing import Self

import numpy as np

from costmodel.arrays import FloatArray

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
