"""The tables of a report: the candidates that were measured, and the kernels to run."""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.report._table import TextTable
from costmodel.search._result import SearchResult
from costmodel.search._trial import Trial
from costmodel.tuning.report._curves import BEST_KNOWN, WHOLE_CHOICE
from costmodel.tuning.report._findings import Findings, launches, microseconds

if TYPE_CHECKING:
    import pandas as pd


# At a single budget, the latency of a trial is also told as a multiple of what others would choose.
_RATIOS = {BEST_KNOWN: "x best", WHOLE_CHOICE: "x whole"}


def trials_table(found: Findings) -> TextTable:
    """The trials from the best to the worst, failures last."""
    columns = [dict(_cells(found, rank, trial)) for rank, trial in enumerate(found.search.ranked, start=1)]
    rows = [list(row.values()) for row in columns]
    return TextTable("Candidates measured", tuple(columns[0]), rows)


def kernels_table(found: Findings) -> TextTable:
    """The chosen kernels and where each runs."""
    header = (found.unit, "config", "grid x block", "measured at", "measured\nus", "above best\n%")
    rows = [
        [
            _span(chosen.from_sms, chosen.to_sms),
            chosen.config_id[:8],
            launches(found.search.trials[part.kernel].candidate),
            " ".join(map(str, chosen.latency_s)),
            " ".join(map(microseconds, chosen.latency_s.values())),
            " ".join(f"{100 * regret:.1f}" for regret in chosen.regret.values()),
        ]
        for part, chosen in zip(found.ranges, found.dispatch_table.ranges, strict=True)
    ]
    return TextTable("Kernels to run", header, rows)


def _cells(found: Findings, rank: int, trial: Trial) -> Iterator[tuple[str, str]]:
    """Names of columns and what stands in them in the row of a trial."""
    search = found.search
    yield "rank", str(rank)
    yield "trial", str(trial.number)
    if len({each.candidate.source for each in search.trials}) > 1:
        yield "source", trial.candidate.source
    yield "config", trial.candidate.config.config_id[:8]
    yield "grid x block", launches(trial.candidate)
    latencies = [
        microseconds(latency_s) if math.isfinite(latency_s) else outcome.value
        for latency_s, outcome in zip(trial.latency_s, trial.outcomes, strict=True)
    ]
    if len(search.sms) > 1:
        regret = search.regret[search.trials.index(trial)]
        yield "regret\n%", f"{100 * regret:.1f}" if math.isfinite(regret) else ""
        yield from ((f"us on\n{sms}", latency) for sms, latency in zip(search.sms, latencies, strict=True))
        return
    predicted = trial.predicted_latency_s
    yield "predicted\nus", microseconds(predicted[0] if predicted else None)
    yield "measured\nus", latencies[0]
    for label, known in found.others.items():
        if label in _RATIOS and search.sms[0] in known:
            ratio = trial.latency_s[0] / known[search.sms[0]]
            yield _RATIOS[label], f"{ratio:.2f}" if math.isfinite(ratio) else ""


def _span(first: int, last: int) -> str:
    return str(first) if first == last else f"{first} to {last}"


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
