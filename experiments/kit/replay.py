"""Search recorded configs with a transfer model.

``costmodel.search.tune`` on a ``ReplayRunner`` searches as the product does. This is for models under trial:
nothing is drawn, and nothing is known but features and latencies.
"""

import numpy as np
from numpy.typing import ArrayLike

from costmodel.arrays import FloatArray, Positions
from costmodel.search._acquisition import improvement_of_posterior
from costmodel.transfer import TransferModel
from costmodel.transfer._plan import Posterior

_SCREENED, _SCREEN_EVERY = 2048, 16  # as ModelSampler does


def search_recorded(  # noqa: PLR0913 (a search, and when it ends)
    model: TransferModel,
    X: FloatArray,
    latency_s: FloatArray,
    *,
    near: float,
    most: int,
    least: int = 1,
    first: ArrayLike = (),
) -> Positions:
    """Measure the best score and, where a model has a posterior, the largest expected improvement in turn.

    Args:
        model: A model that learned other tasks.
        X: ``(n, d)`` features of the configs.
        latency_s: ``(n,)`` recorded latencies, inf for failures; looked at where they are measured.
        near: The search ends where the best measured is at most so many times the best recorded.
        most: The search ends after so many measurements.
        least: It does not end before so many.
        first: Positions of the configs that are measured first.

    Returns:
        Positions of what is measured, in order.
    """
    seen = np.asarray(first, dtype=np.intp).tolist()
    good_s, pool = near * latency_s.min(), np.arange(len(X))
    while len(seen) < most and not (len(seen) >= least and latency_s[seen].min() <= good_s):
        predictor = model.propose(X[seen], latency_s[seen]) if seen else model
        if len(seen) % _SCREEN_EVERY == 0 and len(X) > _SCREENED + len(seen):
            pool = np.argsort(-predictor.predict(X).score, kind="stable")[: _SCREENED + len(seen)]
        left = pool[~np.isin(pool, seen)]
        left = left[np.argsort(-predictor.predict(X[left]).score, kind="stable")]
        best_s = latency_s[seen].min() if seen else np.inf
        if len(seen) % 2 and np.isfinite(best_s) and isinstance(predictor, Posterior):
            left = left[[int(np.argmax(improvement_of_posterior(predictor, X[left], best_s)))]]
        seen.append(int(left[0]))
    return np.array(seen, dtype=np.intp)
