"""What the whole device's best kernel costs on a part of it, and how much of that a choice wins back."""

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.metrics._score import best_latency


def budget_gap_error(latency_s: FloatArray, whole_device_choice: int) -> float:
    """Latency of the whole-device choice / best latency at this budget - 1, at least 0.

    Args:
        latency_s: ``(n,)`` seconds at this SM budget; inf for a config that failed.
        whole_device_choice: Position of the config that is fastest on the whole device.

    Raises:
        ValueError: No latency is finite.
    """
    best = best_latency(latency_s)
    return float(latency_s[whole_device_choice]) / best - 1.0


def gap_recovered(chosen_s: FloatArray, whole_choice_s: FloatArray, best_s: FloatArray) -> float:
    """Share of the budget gap that a choice wins back, pooled over tasks; higher is better.

    ``1 - sum(log(chosen / best)) / sum(log(whole_choice / best))``: 1 for the best config of every task, 0
    for a choice as good as the whole-device choice, negative for a worse one, -inf where a chosen config
    fails. NaN where the whole-device choice is the best in every task, so that nothing can be won.

    Args:
        chosen_s: ``(t,)`` latency of the chosen config in each task.
        whole_choice_s: ``(t,)`` latency of the whole-device choice, at the task's budget.
        best_s: ``(t,)`` best latency, finite.
    """
    gap = float(np.log(whole_choice_s / best_s).sum())
    lost = float(np.log(chosen_s / best_s).sum())
    return 1.0 - lost / gap if gap > 0.0 else float("nan")
