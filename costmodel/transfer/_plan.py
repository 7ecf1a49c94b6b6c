"""Choose what to measure first of a new task."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import numpy as np
from threadpoolctl import threadpool_limits

from costmodel.arrays import FloatArray, Positions
from costmodel.learners._base import Prediction
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer.models._quantiles import std_of

_lock = threading.RLock()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold BLAS to one thread, and let one caller at a time do so.

    Matrices of a few hundred rows gain nothing from more, and where several trials are proposed by threads
    (``n_jobs`` of Optuna) those of BLAS get into each other's way: with 2 x 2 threads on 2 cores a search
    took eight times as long as with one. The number of threads is one for the process: were it set and
    restored by several callers at once, the last would restore what another had set.
    """
    with _lock, threadpool_limits(1, user_api="blas"):
        yield


# Candidates that are looked at for each one to choose: beyond them, what is informative is not good.
_CONSIDERED = 30

# A shortlist is chosen from the 300 best and the 150 best at one and at two standard deviations of luck:
# the work grows with the cube of their number.
_BY_LUCK = ((0.0, 300), (1.0, 150), (2.0, 150))
_SAMPLES = 512
_JITTER = 1e-8


@runtime_checkable
class Posterior(Protocol):
    """A predictor with a joint distribution of the candidates' log latencies, such as ``Calibrated``."""

    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates; higher is better."""
        ...

    def std(self, X: FloatArray) -> FloatArray:
        """Return the ``(n,)`` standard deviation of a measurement's log latency."""
        ...

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return mean ``(n,)`` and covariance ``(n, n)`` of log latencies, up to a constant."""
        ...


@one_blas_thread()
def choose_first(model: TransferModel, X: FloatArray, m: int, *, optimism: float = 1.0) -> Positions:
    """Choose the m candidates to measure first, as a batch that is both fast and informative.

    Candidates are chosen one at a time, by the best ``score + optimism * std``. Each is then assumed to have
    its predicted latency, which lowers the std of similar candidates, so that near-copies are not measured
    together (Desautels, Krause and Burdick, "Parallelizing
    exploration-exploitation tradeoffs in Gaussian process bandit optimization", JMLR 15, 2014, algorithm 1).
    If the adapted model gives no std, the m best are chosen. Ties go to the first.

    Args:
        model: A fitted transfer model.
        X: ``(n, d)`` candidates of one task.
        m: Number of candidates to choose; all of them if there are fewer.
        optimism: Weight of the standard deviation of log latency; 0 chooses the m best.

    Returns:
        Positions of the chosen candidates.

    Raises:
        ValueError: ``m < 1``.
    """
    if m < 1:
        raise ValueError(f"m must be at least 1, but got {m}")
    score = model.predict(X).score
    best_first = np.argsort(-score, kind="stable")
    if optimism == 0.0:
        return best_first[:m]
    considered = best_first[: _CONSIDERED * m]
    chosen = [int(considered[0])] if considered.size else []
    while len(chosen) < min(m, len(considered)):
        left = considered[~np.isin(considered, chosen)]
        # Latencies up to a common factor are enough: no measurement moves the mean.
        adapted = model.adapt(X[chosen], np.exp(-score[chosen]))
        hoped = score[left] + optimism * std_of(adapted, X[left])
        chosen.append(int(left[np.argmax(hoped)]))
    return np.array(chosen, dtype=np.intp)


@one_blas_thread()
def shortlist(
    predictor: Predictor, X: FloatArray, k: int, *, best_s: float | None = None, seed: int = 0
) -> Positions:
    """Choose an ordered list of k candidates that maximises the expected Score@k.

    Joint latencies of the candidates are sampled ``_SAMPLES`` times. The list begins with the best score.
    Each next candidate is the one that adds most to the expected Score@k: the best latency of a sample over
    the best of the listed candidates. A near-copy of a listed candidate adds little, as it is fast in the
    same samples; a candidate that may be fast when the listed ones are not adds more. This is the simulation
    of batch expected improvement (Azimi, Fern and Fern, NIPS 2010). The expected best of a set is monotone
    and submodular, so the greedy list reaches at least 1 - 1 / e of the value of the best list of its length
    (Nemhauser, Wolsey and Fisher, 1978; Krause and Golovin, "Submodular function maximization", 2014).

    If the predictor is no ``Posterior``, the k best are returned. The list does not depend on the order of
    the candidates; ties are broken by the features.

    Args:
        predictor: A fitted transfer model, or a predictor from its ``adapt``.
        X: ``(n, d)`` unmeasured candidates of one task.
        k: Number of candidates to choose; all of them if there are fewer.
        best_s: Best latency measured so far, in seconds, which the list should improve on. Requires a
            predictor that was adapted to measurements. None if nothing ran.
        seed: Seed of the samples.

    Returns:
        Positions of the chosen candidates, in order.

    Raises:
        ValueError: ``k < 1``.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, but got {k}")
    score = predictor.predict(X).score
    best_first = np.lexsort((*X.T[::-1], -score))
    if k == 1 or not len(X) or not isinstance(predictor, Posterior):
        return best_first[:k]
    considered = _considered(score[best_first], predictor.std(X[best_first]))
    mean, covariance = predictor.posterior(X[best_first[considered]])
    drawn = _draw(mean, covariance, np.random.default_rng(seed))
    chosen = best_first[considered[_greedy(drawn, k, best_s)]]
    return np.concatenate([chosen, best_first[~np.isin(best_first, chosen)]])[:k]


def _considered(score: FloatArray, std: FloatArray) -> Positions:
    """Positions of the candidates that may be the best, ascending."""
    by_luck = [np.argsort(-(score + luck * std), kind="stable")[:count] for luck, count in _BY_LUCK]
    return np.unique(np.concatenate(by_luck))


def _draw(mean: FloatArray, covariance: FloatArray, rng: np.random.Generator) -> FloatArray:
    """``(n, samples)`` normal draws. The jitter keeps a singular covariance from failing."""
    jitter = _JITTER * max(float(np.trace(covariance)) / len(mean), _JITTER)
    root = np.linalg.cholesky(covariance + jitter * np.eye(len(mean)))
    return np.asarray(mean[:, None] + root @ rng.normal(size=(len(mean), _SAMPLES)))


def _greedy(log_latency: FloatArray, k: int, best_s: float | None) -> Positions:
    """Positions of up to k of ``(n, samples)`` candidates that come best first, as in ``shortlist``."""
    reached = np.inf if best_s is None else np.log(best_s)
    best = np.minimum(log_latency.min(axis=0), reached)
    score = np.exp(best - log_latency)
    listed, chosen = np.exp(best - reached), list[int]()
    while len(chosen) < min(k, len(score)):
        gain = np.maximum(score - listed, 0.0).mean(axis=1)
        gain[chosen] = -1.0
        chosen.append(int(np.argmax(gain)) if chosen or best_s is not None else 0)
        listed = np.maximum(listed, score[chosen[-1]])
    return np.array(chosen, dtype=np.intp)


def rank_correlation(a: FloatArray, b: FloatArray) -> float:
    """Spearman's rank correlation; equal values share their mean rank, and without variation it is 0."""
    ranks = [_mean_ranks(values) for values in (a, b)]
    centred = [rank - rank.mean() for rank in ranks]
    norm = float(np.sqrt(np.square(centred[0]).sum() * np.square(centred[1]).sum()))
    return float(centred[0] @ centred[1]) / norm if norm > 0.0 else 0.0


def _mean_ranks(values: FloatArray) -> FloatArray:
    _, position, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2.0)[position])
