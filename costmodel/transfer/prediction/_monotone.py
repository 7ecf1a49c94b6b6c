"""Latencies that do not rise with SMs, for devices that no measurement holds in check."""

from collections.abc import Iterable, Mapping

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records import Device

# SMs that green contexts are granted by.
_STEP = 8

Predictions = Mapping[str, FloatArray]


def budget_grid(device: Device, asked: Iterable[int]) -> list[int]:
    """Numbers of SMs, ascending: those asked for, every eighth, and the whole device."""
    return sorted({*asked, *range(_STEP, device.sms + 1, _STEP), *([device.sms] if device.sms else [])})


def without_rises(by_budget: Mapping[int, Predictions]) -> dict[int, Predictions]:
    """Predictions whose latency does not rise with SMs, nearest to those given in the square of its log.

    Isotonic regression of each kernel over its budgets (Barlow et al., "Statistical Inference under Order
    Restrictions", 1972). Intervals move with their latency, and the score is -log latency.

    Args:
        by_budget: By ascending number of SMs, what a model says of the same n kernels, with ``latency_s``.
    """
    from scipy.optimize import isotonic_regression

    log_s = np.log(np.column_stack([each["latency_s"] for each in by_budget.values()]))
    fitted = np.array([isotonic_regression(row, increasing=False).x for row in log_s]).reshape(log_s.shape)
    return {sms: _moved(each, fitted[:, i] - log_s[:, i]) for i, (sms, each) in enumerate(by_budget.items())}


def _moved(found: Predictions, by: FloatArray) -> Predictions:
    """Predictions with latencies moved by ``(n,)`` natural logs."""
    seconds = {name: found[name] * np.exp(by) for name in ("latency_s", "low_s", "high_s") if name in found}
    return {**found, **seconds, "score": -np.log(seconds["latency_s"])}
