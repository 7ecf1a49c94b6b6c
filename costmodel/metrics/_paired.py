"""Comparison of two learners on the same tasks."""

import numpy as np

from costmodel.arrays import FloatArray


def win_rate(scores: FloatArray, baseline: FloatArray) -> float:
    """Return the share of tasks with a higher score than the baseline; ties count half. NaN without tasks.

    0.5 means as good as the baseline (the probability of superiority: Vargha and Delaney, "A critique and
    improvement of the CL common language effect size statistics", 2000, on pairs).

    Raises:
        ValueError: The shapes differ.
    """
    if scores.shape != baseline.shape:
        raise ValueError(
            f"scores must have the shape of the baseline, but got {scores.shape} and {baseline.shape}"
        )
    return float(np.mean((scores > baseline) + 0.5 * (scores == baseline))) if scores.size else float("nan")
