"""What to measure first of a new task."""

import numpy as np
from numpy.typing import NDArray

from costmodel.learners import FloatArray
from costmodel.transfer._base import TransferModel
from costmodel.transfer._rehearsal import spread_of

# Candidates that are looked at for each one to choose: beyond them, what is informative is not good.
_CONSIDERED = 30


def choose_first(model: TransferModel, X: FloatArray, m: int, *, optimism: float = 1.0) -> NDArray[np.intp]:
    """Positions of the m candidates to measure first, together, so that they are good and informative.

    One after the other, the candidate with the best ``score + optimism * spread`` is chosen, and taken to
    have the latency that is predicted: the next one's spread is what that measurement would leave of it, so
    that near-copies are not measured together (Desautels, Krause and Burdick, "Parallelizing
    exploration-exploitation tradeoffs in Gaussian process bandit optimization", JMLR 15, 2014, algorithm 1).
    For a model whose adaptation tells no spread these are the m best. Ties go to the first.

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
        hoped = score[left] + optimism * spread_of(adapted, X[left])
        chosen.append(int(left[np.argmax(hoped)]))
    return np.array(chosen, dtype=np.intp)
