"""How much each source task counts for a new one."""

import numpy as np

from costmodel.arrays import FloatArray


def source_weights(distances: FloatArray, bandwidth: float, sources: int) -> FloatArray:
    """``(p, t)`` weights of t source tasks at each of p places, which sum to 1.

    They fall with the distance as ``exp(-(distance / bandwidth)^2 / 2)``. Where more than ``sources`` tasks
    are there, the bandwidth is at most the way from the nearest to the last of these, so that the many do
    not drown the near, and those beyond four times as many weigh nothing, as do tasks infinitely far.

    Args:
        distances: ``(p, t)``, at least one finite in each row.
        bandwidth: Distance at which a task counts 0.61 of one at distance 0.
        sources: Tasks that count, about.
    """
    squared = np.square(distances)
    # Relative to the nearest task, so that the weights of a task far from all do not vanish.
    beyond = squared - squared.min(axis=1, keepdims=True)
    variance = np.full((len(beyond), 1), bandwidth**2)
    if beyond.shape[1] > sources:
        reach = np.partition(beyond, sources - 1, axis=1)[:, sources - 1 : sources]
        variance = np.clip(reach, 1e-12, variance)
    weight = np.exp(-0.5 * beyond / variance)
    if beyond.shape[1] > 4 * sources:
        weight[beyond > np.partition(beyond, 4 * sources - 1, axis=1)[:, 4 * sources - 1 : 4 * sources]] = 0.0
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
