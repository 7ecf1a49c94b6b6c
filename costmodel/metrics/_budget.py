"""The budget gap of the whole-device choice, and the share of it that another choice recovers."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.metrics._score import best_latency


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
