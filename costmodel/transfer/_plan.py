"""What to measure first of a new task."""

from typing import Protocol, runtime_checkable

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.learners import Prediction
from costmodel.transfer._base import Predictor, TransferModel
from costmodel.transfer._blas import one_blas_thread
from costmodel.transfer.uncertainty import std_of

# Candidates that are looked at for each one to choose: beyond them, what is informative is not good.
_CONSIDERED = 30

# A shortlist is chosen from the 300 best and the 150 best at one and at two standard deviations of luck:
# the work grows with the cube of their number.
_BY_LUCK = ((0.0, 300), (1.0, 150), (2.0, 150))
_SAMPLES = 512
_JITTER = 1e-8


@runtime_checkable
class Posterior(Protocol):
    """A predictor that tells which log latencies candidates may have together, such as ``Calibrated``."""

    def predict(self, X: FloatArray) -> Prediction:
        """Score candidates; higher is better."""
        ...

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` standard deviation of a measurement's log latency."""
        ...

    def posterior(self, X: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean ``(n,)`` and covariance ``(n, n)`` of log latencies, up to a constant."""
        ...


@one_blas_thread()
def choose_first(model: TransferModel, X: FloatArray, m: int, *, optimism: float = 1.0) -> Positions:
    """Positions of the m candidates to measure first, together, so that they are good and informative.

    One after the other, the candidate with the best ``score + optimism * std`` is chosen, and taken to
    have the latency that is predicted: the next one's std is what that measurement would leave of it, so
    that near-copies are not measured together (Desautels, Krause and Burdick, "Parallelizing
    exploration-exploitation tradeoffs in Gaussian process bandit optimization", JMLR 15, 2014, algorithm 1).
    For a model whose adaptation tells no std these are the m best. Ties go to the first.

    Args:
        model: A fitted transfer model.
        X: ``(n, d)`` candidates of one task.
        m: How many; all of them if there are fewer.
        optimism: What a standard deviation of log latency is worth; 0 chooses the m best.

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
    """Positions of k candidates, in order, of which the best is expected to be best.

    Latencies of the candidates are drawn together, ``_SAMPLES`` times. The list begins with the best score;
    one after the other then comes the candidate that adds most to the expected Score@k, the best latency of a
    sample over the best of those listed. Near-copies of a candidate are fast when it is, and add little;
    another that may be fast when it is not adds more. This is the simulation of batch expected improvement
    (Azimi, Fern and Fern, NIPS 2010). What is expected of the best of a set is monotone and submodular, so
    that the greedy list reaches at least 1 - 1 / e of what the best list of its length does (Nemhauser,
    Wolsey and Fisher, 1978; Krause and Golovin, "Submodular function maximization", 2014).

    For a predictor that is no ``Posterior`` these are the k best. The same candidates give the same list in
    whatever order they stand; ties go by the features.

    Args:
        predictor: A fitted transfer model, or what it was adapted to.
        X: ``(n, d)`` candidates of one task, without those measured.
        k: How many; all of them if there are fewer.
        best_s: Best latency measured so far, in seconds, which the list is to improve on; it takes a
            predictor that was adapted to measurements. None if nothing ran.
        seed: Seed of the samples.

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
