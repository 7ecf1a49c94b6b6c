"""What the next measurement is worth: the acquisition functions that samplers and proposals share.

Source: Jones, Schonlau and Welch, "Efficient Global Optimization of Expensive Black-Box Functions", 1998,
equation 15.
"""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.transfer._plan import Posterior

_CONSIDERED = 512  # the best scores; the work grows with the square of their number
_LEAST_VARIANCE = 1e-12


def expected_improvement(gain: FloatArray, std: FloatArray) -> FloatArray:
    """``(...)`` expected gain over the best, where a loss counts as none; at least 0.

    Args:
        gain: ``(...)`` expected log of the best latency over that of a candidate, in natural logs.
        std: ``(...)`` its standard deviation, above 0.
    """
    from scipy.special import ndtr

    z = gain / std
    density = np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return np.asarray(np.maximum(gain * ndtr(z) + std * density, 0.0))


def improvement_of_posterior(posterior: Posterior, X: FloatArray, best_s: float) -> FloatArray:
    """``(k,)`` expected improvement of log latency of the first candidates, up to 512 of them.

    It is without the noise of a measurement, which makes no kernel faster.

    Args:
        posterior: What was learned, conditioned on one or more measurements that ran.
        X: ``(n, d)`` candidates, best score first.
        best_s: Best latency so far, in seconds.
    """
    if not len(X):
        return np.zeros(0)
    mean, covariance = posterior.posterior(X[:_CONSIDERED])
    return expected_improvement(
        np.log(best_s) - mean, np.sqrt(np.maximum(np.diag(covariance), _LEAST_VARIANCE))
    )
