"""How good a choice within one task is.

Notations:
    n: configs of the task.
    latency_s: ``(n,)`` positive seconds; ``inf`` for a config that failed.
    predicted_score: ``(n,)``, higher is better.
"""

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray


def score(latency_s: FloatArray) -> FloatArray:
    """Best latency / latency, in [0, 1]: 1 for the best, 0 for failures.

    Raises:
        ValueError: No latency is finite.
    """
    return _best(latency_s) / latency_s


def chosen_first(predicted_score: FloatArray, latency_s: FloatArray) -> NDArray[np.intp]:
    """Positions of the configs, best predicted first.

    Equal predictions are put slowest first, so that no metric can profit from ties: a learner that gives all
    configs the same score gets the worst order there is. The result does not depend on the order of the
    configs.

    Raises:
        ValueError: The shapes differ, or a prediction is NaN.
    """
    if predicted_score.shape != latency_s.shape or predicted_score.ndim != 1:
        raise ValueError(
            "predicted_score and latency_s must have one shape (n,), "
            f"but got {predicted_score.shape} and {latency_s.shape}"
        )
    if np.isnan(predicted_score).any():
        raise ValueError(f"predicted_score must not be NaN, but got {np.isnan(predicted_score).sum()} NaN")
    return np.lexsort((-latency_s, -predicted_score))


def score_at_k(predicted_score: FloatArray, latency_s: FloatArray, k: int) -> float:
    """Best latency / best latency among the k configs predicted best, in [0, 1]; 0 if all of these fail.

    With fewer than k configs all are chosen, and the result is 1. Ties are pessimistic, see ``chosen_first``.

    Raises:
        ValueError: ``k < 1``, no latency is finite, or see ``chosen_first``.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, but got {k}")
    chosen = chosen_first(predicted_score, latency_s)[:k]
    return _best(latency_s) / float(latency_s[chosen].min())


def regret_error(predicted_score: FloatArray, latency_s: FloatArray) -> float:
    """Latency of the config predicted best / best latency - 1, at least 0; inf if that config fails.

    Raises:
        ValueError: No latency is finite, or see ``chosen_first``.
    """
    return float(latency_s[chosen_first(predicted_score, latency_s)[0]]) / _best(latency_s) - 1.0


def n_eps(ordered_latency_s: FloatArray, eps: float, best_s: float | None = None) -> float:
    """Measurements, made in this order, until one is within ``eps`` of the best: at least 1.

    Args:
        ordered_latency_s: ``(n,)`` latencies in the order in which they are measured.
        eps: 0.05 accepts a latency up to 5 % above the best.
        best_s: Best latency there is; the best in the order if None. If the order never comes within ``eps``
            of it, the result is inf.

    Raises:
        ValueError: ``best_s`` is None and no latency is finite.
    """
    best = _best(ordered_latency_s) if best_s is None else best_s
    hits = np.flatnonzero(ordered_latency_s <= best * (1.0 + eps))
    return float(hits[0] + 1) if hits.size else float("inf")


def relative_error(predicted_s: FloatArray, latency_s: FloatArray) -> float:
    """Median over the configs that ran of |predicted / measured - 1|; NaN if none ran."""
    ran = np.isfinite(latency_s)
    errors = np.abs(predicted_s[ran] / latency_s[ran] - 1.0)
    return float(np.median(errors)) if errors.size else float("nan")


def _best(latency_s: FloatArray) -> float:
    best = float(latency_s.min(initial=np.inf))
    if not np.isfinite(best):
        raise ValueError(f"at least one latency must be finite, but got none in {latency_s.size}")
    return best
