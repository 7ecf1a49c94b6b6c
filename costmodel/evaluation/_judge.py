"""The two rules that every learner stands beside: choosing at random, and the whole device's choice."""

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.metrics import (
    chosen_first,
    expected_log_excess,
    expected_n_eps,
    expected_score_at_k,
    n_eps,
    regret_error,
    relative_error,
    score_at_k,
)

FloatArray = NDArray[np.float64]

RANDOM = "random"
WHOLE_DEVICE = "whole device"
KS = (1, 5, 10, 25)
EPS = 0.05


def on_whole_device(rows: pd.DataFrame) -> NDArray[np.bool_]:
    """``(n,)`` whether each row has the largest SM budget that there is on its device."""
    largest = rows.groupby("device")["sms_granted"].transform("max")
    return (rows["sms_granted"] == largest).to_numpy()


def whole_device_latency(rows: pd.DataFrame) -> FloatArray:
    """``(n,)`` latency of each row's candidate at its device's largest SM budget; inf if not measured."""
    keys = ["device", "candidate"]
    latency_of = rows[on_whole_device(rows)].groupby(keys)["latency_s"].min()
    latencies = latency_of.reindex(pd.MultiIndex.from_frame(rows[keys]))
    return latencies.fillna(np.inf).to_numpy(dtype=np.float64)


def judge_random(latency_s: FloatArray) -> dict[str, Any]:
    """Exact expectations of one task's results for configs drawn at random.

    The regret is that of the expected log excess, over configs that run; scores count failures as 0.
    """
    excess = expected_log_excess(latency_s)
    return {
        **{f"score_at_{k}": expected_score_at_k(latency_s, k) for k in KS},
        "regret_error": float(np.expm1(excess)),
        "n_eps": expected_n_eps(latency_s, EPS),
        "log_excess": excess,
        "latency_error": np.nan,
        "log_bias": np.nan,
    }


def judge(
    predicted_score: FloatArray, predicted_s: FloatArray | None, latency_s: FloatArray
) -> dict[str, Any]:
    """One task's results for configs chosen by a prediction.

    A choice that fails scores 0 and has infinite regret, but it is found out before it is ever used: the log
    excess is that of the first choice that runs, as it is for a choice at random.
    """
    ordered_s = latency_s[chosen_first(predicted_score, latency_s)]
    first_s = float(ordered_s[np.isfinite(ordered_s)][0])
    return {
        **{f"score_at_{k}": score_at_k(predicted_score, latency_s, k) for k in KS},
        "regret_error": regret_error(predicted_score, latency_s),
        "n_eps": n_eps(ordered_s, EPS),
        "log_excess": float(np.log(first_s / latency_s.min())),
        "latency_error": np.nan if predicted_s is None else relative_error(predicted_s, latency_s),
        "log_bias": np.nan if predicted_s is None else _log_bias(predicted_s, latency_s),
    }


def _log_bias(predicted_s: FloatArray, latency_s: FloatArray) -> float:
    """Mean log of predicted / measured latency over the configs that ran: what all of them are off by."""
    ran = np.isfinite(latency_s)
    return float(np.log(predicted_s[ran] / latency_s[ran]).mean())
