"""Trials as a table of plain values."""

from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.search._result import SearchResult
from costmodel.search._trial import Trial

if TYPE_CHECKING:
    import pandas as pd


def trials_frame(search: SearchResult) -> "pd.DataFrame":
    """One row a trial, in the order in which they were proposed.

    Columns: ``trial`` (its number), ``config_id``, ``outcome``, ``latency_s``, ``predicted_latency_s``,
    ``error``, and the decisions of the config as a text. Of a search over several SM budgets, outcome and
    latencies stand once a budget, with its SMs behind the name: ``latency_s_32``. What there is not is NaN.
    """
    import pandas as pd

    return pd.DataFrame([_row(trial) for trial in search.trials])


def _row(trial: Trial) -> dict[str, Any]:
    predicted = trial.predicted_latency_s or (None,) * len(trial.sms)
    row: dict[str, Any] = {"trial": trial.number, "config_id": trial.candidate.config.config_id}
    for sms, outcome, latency_s, expected_s in zip(
        trial.sms, trial.outcomes, trial.latency_s, predicted, strict=True
    ):
        at = f"_{sms}" if len(trial.sms) > 1 else ""
        row |= {
            f"outcome{at}": outcome.value,
            f"latency_s{at}": latency_s if np.isfinite(latency_s) else np.nan,
            f"predicted_latency_s{at}": np.nan if expected_s is None else expected_s,
        }
    return row | {"error": trial.error, "config": repr(trial.candidate.config.decisions)}
