"""Slowdowns learned from pairs that have neither kernel of the pair asked for.

Notations: n pairs, each with a left and a right side. A sample is one side of a pair, so that there are 2n,
all left sides first. The target is the logarithm of the slowdown over that of fair shares.
"""

from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement, product
from typing import NamedTuple

import numpy as np
from measured import Array, Measured
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

GROUPS = 7  # of kernels, of which two are left out at a time
Predict = Callable[[Measured, Measured], Array]


def held_out(measured: Measured, predict: Predict) -> Array:
    """``(n, 2)`` slowdowns, each by a prediction that has seen neither kernel of the pair."""
    found = np.full(measured.slowdowns.shape, np.nan)
    for known, asked in folds(measured):
        found[asked] = predict(measured.take(known), measured.take(asked))
    return found


def folds(measured: Measured) -> Iterator[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """Pairs to learn from and pairs to judge by, ``(n,)`` each: no kernel is in both."""
    names = np.unique(measured.kernels)
    group = dict(zip(names, np.random.default_rng(0).permutation(len(names)) % GROUPS, strict=True))
    groups = np.sort(np.vectorize(group.__getitem__)(measured.kernels), axis=1)
    for both in combinations_with_replacement(range(GROUPS), 2):
        asked = (groups == both).all(axis=1)
        if asked.any():
            yield ~np.isin(groups, both).any(axis=1), asked


class Shared(NamedTuple):
    """What kernels share; see ``SharedMemory``.

    Attributes:
        memory_bytes_s: What the device's memory gives a second.
        l2_bytes: What the cache holds.
        l2_bytes_s: What it gives a second.
    """

    memory_bytes_s: float
    l2_bytes: float
    l2_bytes_s: float


def by_shares(shared: Shared, measured: Measured) -> Array:
    """``(n, 2)`` what ``SharedMemory`` says of all pairs."""
    sizes, alone_s = measured.sizes_bytes.astype(float), measured.alone_s
    missed_alone = np.maximum(0.0, 1 - shared.l2_bytes / sizes)
    missed = np.maximum(0.0, 1 - shared.l2_bytes / sizes.sum(axis=1, keepdims=True))
    overcounted = np.maximum(1.0, sizes * missed_alone / alone_s / shared.memory_bytes_s)
    of_memory = times_as_long(sizes * missed / alone_s / overcounted, shared.memory_bytes_s)
    of_cache = times_as_long(np.minimum(sizes / alone_s, shared.l2_bytes_s), shared.l2_bytes_s)
    return np.maximum(of_memory, of_cache)


def times_as_long(asked: Array, most: float) -> Array:
    """``(n, 2)`` what each of two asks for over its fair share, at least 1."""
    if np.isinf(most):
        return np.ones_like(asked)
    left_by_other = np.maximum(most / 2, most - asked[:, ::-1])
    return np.maximum(1.0, asked / left_by_other)


def fitted_shares(known: Measured, asked: Measured) -> Array:
    """Fair shares of what bandwidths and cache come out best for the known pairs."""
    return by_shares(fit_shares(known), asked)


def fit_shares(known: Measured) -> Shared:
    """Fair shares with the least mean error over some pairs, of a grid."""
    device = known.device
    bandwidths = device.bandwidth_gb_s * 1e9 * np.arange(0.5, 1.05, 0.05)
    grid = product(bandwidths, device.l2_bytes * np.arange(0.0, 1.1, 0.1), (3e12, 4e12, 5e12, 6.4e12, np.inf))
    shared = [Shared(*each) for each in grid]
    errors = [np.abs(by_shares(each, known) / known.slowdowns - 1).mean() for each in shared]
    return shared[int(np.argmin(errors))]


def above_shares(make: Callable[[], RegressorMixin]) -> Predict:
    """What a learner says that fitted shares leave over."""

    def predict(known: Measured, asked: Measured) -> Array:
        shares = fit_shares(known)
        base, asked_base = by_shares(shares, known), by_shares(shares, asked)
        learner = make().fit(columns(known, base), np.log(known.slowdowns / base).T.ravel())
        left_over = learner.predict(columns(asked, asked_base)).reshape(2, -1).T
        return np.maximum(1.0, asked_base * np.exp(left_over))

    return predict


def columns(measured: Measured, shares: Array) -> Array:
    """``(2n, columns)`` what is known of each kernel and of the one beside it, and their fair shares."""
    device = measured.device
    asked = np.where(np.isnan(measured.requested_bytes), measured.sizes_bytes, measured.requested_bytes)
    of_kernel = [
        np.log(measured.alone_s),
        np.log(measured.sizes_bytes),
        np.minimum(2.0, measured.sizes_bytes / device.l2_bytes),
        measured.sizes_bytes / measured.alone_s / (device.bandwidth_gb_s * 1e9),
        np.log(asked / measured.alone_s),
        np.log(measured.alone_s / measured.whole_s),
        np.log1p(np.nan_to_num(measured.flops) / measured.alone_s),
        np.log(shares),
    ]
    own = np.stack([each.T.ravel() for each in of_kernel], axis=1)
    other = np.stack([each[:, ::-1].T.ravel() for each in of_kernel], axis=1)
    return np.hstack([own, other, measured.sms.T.reshape(-1, 1)])


def trees() -> RegressorMixin:
    return HistGradientBoostingRegressor(
        loss="absolute_error", max_iter=200, learning_rate=0.05, max_leaf_nodes=15, min_samples_leaf=20
    )


def kernel_ridge() -> RegressorMixin:
    return make_pipeline(StandardScaler(), KernelRidge(kernel="laplacian", gamma=0.05, alpha=0.3))


LEARNED: dict[str, Predict] = {
    "fitted shares": fitted_shares,
    "trees above fitted shares": above_shares(trees),
    "kernel ridge above fitted shares": above_shares(kernel_ridge),
}
