"""Metrics of choices within one task, of predicted seconds and of intervals, as functions of arrays.

Higher ``*_score`` is better, lower ``*_error`` is better. For equal predictions, a metric is the exact
expectation over all orders of these configs, so that no rule can profit from the order of a file. Coverage
and width of intervals are meaningful together only: an interval from 0 to infinity covers everything. An
``ArrayLike`` may be a list, or a column of a table.

Notations:
    n: configs of the task.
    latency_s: ``(n,)`` positive seconds; ``inf`` for a config that failed.
    predicted_score: ``(n,)``, higher is better.
"""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from costmodel.arguments import check_whole
from costmodel.arrays import FloatArray, Positions
from costmodel.errors import InvalidArgumentError, shorten


def check_columns(**given: ArrayLike) -> list[FloatArray]:
    """Take arguments that are like arrays as ``(n,)`` numbers, one of each for a config.

    Raises:
        InvalidArgumentError: One is no list of numbers, they are of several lengths, or there is no config.
    """
    arrays = [_as_numbers(name, value) for name, value in given.items()]
    shapes = [array.shape for array in arrays]
    if len({*shapes}) > 1 or arrays[0].ndim != 1 or not arrays[0].size:
        raise InvalidArgumentError(
            f"{' and '.join(given)} must have one shape (n,), with n of at least 1, "
            f"but got {' and '.join(map(str, shapes))}."
        )
    return arrays


def check_seconds(**given: FloatArray) -> None:
    """Check that each is seconds, of which none is negative or NaN; inf for a config that failed."""
    for name, seconds in given.items():
        if not (seconds >= 0.0).all():
            wrong = int(np.argmin(seconds >= 0.0))
            raise InvalidArgumentError(
                f"{name} must be seconds, inf where a config failed, but got {seconds[wrong]} at {wrong}."
            )


def _as_numbers(name: str, value: ArrayLike) -> FloatArray:
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biufO":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        pass
    raise InvalidArgumentError(
        f"{name} must be a list or an array of numbers, but got {shorten(repr(value))}."
    )


def tie_groups(predicted_score: ArrayLike, latency_s: ArrayLike) -> Iterator[FloatArray]:
    """Latencies of the configs with the same prediction, best predicted first; few of them are looked at.

    Args:
        predicted_score: ``(n,)``, higher is better.
        latency_s: ``(n,)`` seconds; inf for a config that failed.

    Raises:
        InvalidArgumentError: The shapes differ or are empty, or something is NaN.
    """
    by, seconds = check_columns(predicted_score=predicted_score, latency_s=latency_s)
    check_seconds(latency_s=seconds)
    if np.isnan(by).any():
        raise InvalidArgumentError(f"predicted_score must not be NaN, but got {np.isnan(by).sum()} NaN.")
    order = np.argsort(-by, kind="stable")
    ranked = by[order]
    ordered, cuts = seconds[order], (np.flatnonzero(ranked[1:] != ranked[:-1]) + 1).tolist()
    return (ordered[start:end] for start, end in pairwise([0, *cuts, len(order)]))


def listed_first(predicted_score: FloatArray, first: Positions) -> FloatArray:
    """Return ``(n,)`` scores that rank the configs at these positions first, in this order.

    Args:
        predicted_score: ``(n,)``; the others keep their order and their ties.
        first: ``(m,)`` distinct positions.
    """
    _, places = np.unique(predicted_score, return_inverse=True)
    ranks = places.astype(np.float64)
    ranks[first] = predicted_score.size + len(first) - np.arange(len(first))
    return ranks


def is_fastest(n: int, k: int) -> FloatArray:
    """``(n,)`` probability that number i in ascending order is the fastest of k drawn of n, or of all n.

    It is drawn and none before it is, by the chance that none of the first i was.
    """
    k, i = min(k, n), np.arange(n)
    none_before = np.cumprod(np.concatenate([[1.0], 1.0 - k / (n - i[:-1])]).clip(min=0.0))
    return np.asarray(none_before * np.minimum(1.0, k / (n - i)))


def score(latency_s: FloatArray) -> FloatArray:
    """Return best latency / latency, in [0, 1]: 1 for the best, 0 for failures.

    Raises:
        ValueError: No latency is finite.
    """
    return best_latency(latency_s) / latency_s


def score_at_k(predicted_score: ArrayLike, latency_s: ArrayLike, k: int) -> float:
    """Return best latency / best latency of the k configs predicted best; 0 if all of these fail.

    With fewer than k configs all are chosen, and the result is 1.

    Raises:
        InvalidArgumentError: ``k`` is no whole number from 1, no latency is finite, or see ``tie_groups``.
    """
    k, tied = check_whole("k", k, 1), tie_groups(predicted_score, latency_s)
    best, chosen_s = best_latency(latency_s), np.inf
    for tied_s in tied:
        if tied_s.size > k:
            fastest_s = np.minimum(chosen_s, np.sort(tied_s))
            return float((is_fastest(tied_s.size, k) * best / fastest_s).sum()) if k else best / chosen_s
        chosen_s, k = min(chosen_s, float(tied_s.min())), k - tied_s.size
    return 1.0


def regret_error(predicted_score: ArrayLike, latency_s: ArrayLike) -> float:
    """Return latency of the config predicted best / best latency - 1; inf if that config may fail.

    Raises:
        ValueError: No latency is finite, or see ``tie_groups``.
    """
    first = next(tie_groups(predicted_score, latency_s))
    return float(first.mean()) / best_latency(latency_s) - 1.0


def log_excess(predicted_score: ArrayLike, latency_s: ArrayLike) -> float:
    """Return ``log(first that runs / best)`` of configs tried in the order of their predictions.

    Raises:
        ValueError: No latency is finite, or see ``tie_groups``.
    """
    best = best_latency(latency_s)
    ran = (tied[np.isfinite(tied)] for tied in tie_groups(predicted_score, latency_s))
    first = next(tied for tied in ran if tied.size)
    return float(np.log(first / best).mean())


def ranked_n_eps(predicted_score: ArrayLike, latency_s: ArrayLike, eps: float) -> float:
    """Return the number of measurements in predicted order until one is within ``eps`` of the best.

    With g configs of equal prediction, h of them within ``eps``, it takes ``(g + 1) / (h + 1)`` measurements.

    Raises:
        ValueError: No latency is finite, or see ``tie_groups``.
    """
    most_s, before = best_latency(latency_s) * (1.0 + eps), 0
    for tied in tie_groups(predicted_score, latency_s):
        hits = int((tied <= most_s).sum())
        if hits:
            return before + (tied.size + 1) / (hits + 1)
        before += tied.size
    raise AssertionError("the best is within eps of itself")


def n_eps(ordered_latency_s: FloatArray, eps: float, best_s: float | None = None) -> float:
    """Return the number of measurements in this order until one is within ``eps`` of the best, from 1.

    Args:
        ordered_latency_s: ``(n,)`` latencies in the order in which they are measured.
        eps: Accepted excess over the best latency, such as 0.05 for 5%.
        best_s: Best latency of the task. Default: the best in the order. The result is inf if no measurement
            is within ``eps`` of it.

    Raises:
        ValueError: ``best_s`` is None and no latency is finite.
    """
    best = best_latency(ordered_latency_s) if best_s is None else best_s
    hits = np.flatnonzero(ordered_latency_s <= best * (1.0 + eps))
    return float(hits[0] + 1) if hits.size else float("inf")


def relative_error(predicted_s: ArrayLike, latency_s: ArrayLike) -> float:
    """Return the median of |predicted / measured - 1| over the configs that ran; NaN if none ran.

    Raises:
        InvalidArgumentError: The shapes differ or are empty, or something is NaN or negative.
    """
    predicted, measured = check_columns(predicted_s=predicted_s, latency_s=latency_s)
    check_seconds(predicted_s=predicted, latency_s=measured)
    ran = np.isfinite(measured)
    errors = np.abs(predicted[ran] / measured[ran] - 1.0)
    return float(np.median(errors)) if errors.size else float("nan")


def best_latency(latency_s: ArrayLike) -> float:
    """Return the lowest latency of a task.

    Raises:
        InvalidArgumentError: No latency is finite.
    """
    seconds = _as_numbers("latency_s", latency_s)
    best = float(seconds.min(initial=np.inf))
    if not np.isfinite(best):
        raise InvalidArgumentError(f"at least one latency must be finite, but got none in {seconds.size}.")
    return best


def expected_score_at_k(latency_s: FloatArray, k: int) -> float:
    """Return the expected Score@k of k configs drawn at random.

    With latencies in ascending order, the fastest of the k is number i (from 0) with probability
    ``C(n - 1 - i, k - 1) / C(n, k)``. Failures score 0.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        k: Number of configs drawn; all of them if there are fewer.
    """
    ordered = np.sort(latency_s)
    return float((is_fastest(ordered.size, k) * ordered[0] / ordered).sum())


def expected_n_eps(latency_s: FloatArray, eps: float) -> float:
    """Return the expected number of measurements in random order until one is within ``eps`` of the best.

    It is ``(n + 1) / (hits + 1)`` with ``hits`` configs within ``eps``.

    Args:
        latency_s: ``(n,)`` seconds; inf for a config that failed; at least one is finite.
        eps: Accepted excess over the best latency, such as 0.05 for 5%.
    """
    hits = int((latency_s <= latency_s.min() * (1.0 + eps)).sum())
    return (latency_s.size + 1) / (hits + 1)


def expected_log_excess(latency_s: FloatArray, k: int = 1) -> float:
    """Return the expected ``log(fastest / best)`` of the fastest of k random configs that do not fail."""
    ordered = np.sort(latency_s[np.isfinite(latency_s)])
    return float((is_fastest(ordered.size, k) * np.log(ordered / ordered[0])).sum())


def budget_gap_error(latency_s: FloatArray, whole_device_choice: int) -> float:
    """Return the budget gap: latency of the whole-device choice / best latency at an SM budget - 1.

    Args:
        latency_s: ``(n,)`` seconds at this SM budget; inf for a config that failed.
        whole_device_choice: Position of the config that is fastest on the whole device.

    Raises:
        ValueError: No latency is finite.
    """
    best = best_latency(latency_s)
    return float(latency_s[whole_device_choice]) / best - 1.0


def gap_recovered(chosen_s: FloatArray, whole_choice_s: FloatArray, best_s: FloatArray) -> float:
    """Return the share of the budget gap that a choice recovers, pooled over tasks; higher is better.

    ``1 - sum(log(chosen / best)) / sum(log(whole_choice / best))``: 1 for the best config of every task, 0
    for a choice as good as the whole-device choice, negative for a worse one, -inf if a chosen config
    fails. NaN if the whole-device choice is the best in every task, so that there is nothing to recover.

    Args:
        chosen_s: ``(t,)`` latency of the chosen config in each task.
        whole_choice_s: ``(t,)`` latency of the whole-device choice, at the task's budget.
        best_s: ``(t,)`` best latency, finite.
    """
    gap = float(np.log(whole_choice_s / best_s).sum())
    lost = float(np.log(chosen_s / best_s).sum())
    return 1.0 - lost / gap if gap > 0.0 else float("nan")


def covered(low_s: FloatArray, high_s: FloatArray, latency_s: FloatArray) -> NDArray[np.bool_]:
    """Return ``(n,)`` whether ``low <= latency <= high``; False for a failed config or a NaN end."""
    return np.asarray((low_s <= latency_s) & (latency_s <= high_s) & np.isfinite(latency_s))


def coverage_score(low_s: ArrayLike, high_s: ArrayLike, latency_s: ArrayLike) -> float:
    """Return the share of configs that ran with latency within their interval; NaN if none ran.

    Intervals of level 0.9 are calibrated if the share is 0.9. If it is higher, they are too wide; if lower,
    too narrow. An end that is NaN covers nothing.

    Raises:
        InvalidArgumentError: The shapes differ or are empty, or a latency is NaN or negative.
    """
    low, high, measured = check_columns(low_s=low_s, high_s=high_s, latency_s=latency_s)
    check_seconds(latency_s=measured)
    ran = np.isfinite(measured)
    return float(covered(low, high, measured)[ran].mean()) if ran.any() else float("nan")


def median_width(low_s: FloatArray, high_s: FloatArray) -> float:
    """Return the median of high / low, at least 1; smaller is sharper. NaN without intervals."""
    return float(np.median(high_s / low_s)) if low_s.size else float("nan")
