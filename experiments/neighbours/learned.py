"""Slowdowns learned from pairs that have neither kernel of the pair asked for.

Notations: n pairs, each with a left and a right side. A sample is one side of a pair, so that there are 2n,
all left sides first. Kernels fall into groups; pairs of two groups are asked for, and pairs with no kernel of
either are known.
"""

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement

import numpy as np
from measured import Array, Measured
from numpy.typing import NDArray
from scipy.optimize import minimize
from shares import fitted_shares
from sklearn.ensemble import ExtraTreesRegressor

SHORT_S = 5e-6
CACHE = 0.5
Predict = Callable[[Measured, Measured], Array]


def held_out(measured: Measured, groups: NDArray[np.int64], predict: Predict) -> Array:
    """``(n, 2)`` slowdowns by a prediction that has seen neither kernel; NaN where that leaves no pairs."""
    found = np.full(measured.slowdowns.shape, np.nan)
    for known, asked in folds(groups):
        if known.any():
            found[asked] = predict(measured.take(known), measured.take(asked))
    return found


def folds(groups: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Known and asked pairs, ``(n,)`` each, by the ``(n, 2)`` groups of their kernels."""
    for both in combinations_with_replacement(np.unique(groups), 2):
        asked = np.all(np.sort(groups, axis=1) == both, axis=1)
        if asked.any():
            yield np.all(~np.isin(groups, both), axis=1), asked


def random_groups(names: NDArray[np.str_], count: int) -> NDArray[np.int64]:
    """``(n, 2)`` groups of kernels by their names, of as many names each."""
    known, positions = np.unique(names, return_inverse=True)
    groups = np.random.default_rng(0).permutation(len(known)) % count
    return np.asarray(groups[positions].reshape(names.shape))


def operators(kernels: NDArray[np.str_]) -> NDArray[np.str_]:
    """``(n, 2)`` what kernels compute, whatever their source and size."""
    return np.vectorize(lambda name: name.rpartition(":")[2].split("-")[0].rpartition(".")[2])(kernels)


class Load:
    """How pairs meet in the cache and in the memory: as ``costmodel.planner.SharedMemory`` has it.

    Attributes:
        asked: ``(n, 2)`` what each takes of the bandwidth beside the other.
        load: What the other takes of it alone.
        by_bandwidth: Slowdown by fair shares of it.
        newly_missed: Of what a kernel finds in the cache alone, the part that it misses.
    """

    def __init__(self, measured: Measured) -> None:
        sizes, alone_s = measured.sizes_bytes, measured.alone_s
        cache, bandwidth = CACHE * measured.device.l2_bytes, measured.device.bandwidth_gb_s * 1e9
        mixed = sizes + sizes[:, ::-1] * np.minimum(1.0, alone_s / alone_s[:, ::-1])
        missed_alone, missed = sizes / (sizes + cache), mixed / (mixed + cache)
        self.asked = np.minimum(1.0, sizes * missed / alone_s / bandwidth)
        self.load = np.minimum(1.0, sizes * missed_alone / alone_s / bandwidth)[:, ::-1]
        share = np.maximum(0.5, 1 - self.load)
        self.by_bandwidth = np.maximum(1.0, self.asked / share)
        self.newly_missed = (missed - missed_alone) / (1 - missed_alone)


def by_waits(known: Measured, asked: Measured) -> Array:
    """By shares of the bandwidth or by waits, whichever are longer; how long waits are is fitted."""
    return slowdowns(fit_waits(known, waits), asked, waits)


def by_cold_waits(known: Measured, asked: Measured) -> Array:
    """The same where it is known what kernels take with an empty cache."""
    return slowdowns(fit_waits(known, cold_waits), asked, cold_waits)


def waits(measured: Measured, load: Load) -> list[Array]:
    """What the waits of a formula grow with, ``(n, 2)`` each."""
    return [np.ones_like(load.load), SHORT_S / (SHORT_S + measured.alone_s), load.asked]


def cold_waits(measured: Measured, load: Load) -> list[Array]:
    """The same, with what a kernel loses that finds nothing in the cache, as far as it newly misses."""
    return [np.ones_like(load.load), lost_when_cold(measured) * load.newly_missed, load.asked]


def lost_when_cold(measured: Measured) -> Array:
    """``(n, 2)`` over what they take alone."""
    return np.maximum(0.0, measured.cold_s / measured.alone_s - 1)


def slowdowns(weights: Array, measured: Measured, terms: Callable[[Measured, Load], list[Array]]) -> Array:
    """``(n, 2)`` by a formula."""
    load = Load(measured)
    waited = np.tensordot(weights, np.stack(terms(measured, load)), 1)
    return np.maximum(load.by_bandwidth, 1 + load.load * waited)


def fit_waits(known: Measured, terms: Callable[[Measured, Load], list[Array]]) -> Array:
    """The weights with the least mean error."""

    def error(weights: Array) -> float:
        return float(np.abs(slowdowns(weights, known, terms) / known.slowdowns - 1).mean())

    found = minimize(error, np.full(3, 0.5), method="Nelder-Mead", bounds=[(0, 20)] * 3)
    return np.asarray(found.x)


def trees(*, cold: bool) -> Predict:
    """Randomised trees.

    Args:
        cold: They know what kernels take with an empty cache.
    """

    def predict(known: Measured, asked: Measured) -> Array:
        learner = ExtraTreesRegressor(200, min_samples_leaf=5, max_features=0.5, n_jobs=-1, random_state=0)
        learner.fit(columns(known, cold=cold), np.log(known.slowdowns).T.ravel())
        found = np.exp(learner.predict(columns(asked, cold=cold)))
        return np.maximum(1.0, found.reshape(2, -1).T)

    return predict


def columns(measured: Measured, *, cold: bool) -> Array:
    """``(2n, columns)`` what is known of each kernel, of the one beside it, and of how they meet."""
    bandwidth = measured.device.bandwidth_gb_s * 1e9
    requested = np.fmax(measured.requested_bytes, measured.sizes_bytes)
    load = Load(measured)
    of_kernel = [
        np.log(measured.alone_s),
        np.log(measured.sizes_bytes + 1),
        measured.sizes_bytes / measured.alone_s / bandwidth,
        requested / measured.alone_s / bandwidth,
        np.log(requested / measured.sizes_bytes),
        np.log(measured.alone_s / measured.whole_s),
        np.log1p(np.nan_to_num(measured.flops) / measured.alone_s / 1e9),
        np.log(measured.sms),
    ]
    of_meeting = [load.asked, load.load, load.by_bandwidth, load.newly_missed]
    if cold:
        lost = lost_when_cold(measured)
        of_kernel.append(lost)
        of_meeting += [lost * load.newly_missed, lost * load.newly_missed * load.load]
    beside = [each[:, ::-1] for each in of_kernel]
    return np.stack([each.T.ravel() for each in (*of_kernel, *beside, *of_meeting)], axis=1)


LEARNED: dict[str, Predict] = {
    "fair shares, fitted": fitted_shares,
    "shares or waits": by_waits,
    "trees": trees(cold=False),
}
KNOWING_COLD: dict[str, Predict] = {"shares or waits": by_cold_waits, "trees": trees(cold=True)}
# What is combined by its geometric mean.
COMBINED = ("shares or waits", "trees")
