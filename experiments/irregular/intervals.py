"""How often a latency lies within the interval of 90 % that the errors for other workloads give."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from choices import Rows

from costmodel.arrays import FloatArray
from costmodel.learners import coverage_score
from costmodel.learners._metrics import median_width
from costmodel.transfer.models._quantiles import MondrianQuantiles

# By what errors are looked at quite apart. By SMs they are within each, drawn towards those of all SMs.
CALIBRATIONS: Mapping[str, list[str]] = {"all together": [], "family and calls": ["kind", "is_call"]}


def coverages(said: pd.DataFrame) -> Rows:
    """Coverage and width, by how intervals are calibrated and by kind of workload.

    The errors that calibrate a fold's intervals are those of all other folds, each made by a model that saw
    nothing of its own fold: what is held out is calibrated as it is asked for.

    Args:
        said: What one learner says of rows that were held out, as ``held_out.predicted`` gives it.
    """
    ran = said[np.isfinite(said["latency_s"]) & said["predicted_s"].notna()]
    ran = ran.assign(is_call=ran["way"].str.startswith("PyTorch"))
    found = []
    for name, columns in CALIBRATIONS.items():
        low, high = _ends(ran, columns)
        for what, at in _groups(ran).items():
            latency = ran["latency_s"].to_numpy()[at]
            row: dict[str, Any] = {"calibrated_by": name, "of": what, "kernels": int(at.sum())}
            row["covered"] = coverage_score(low[at], high[at], latency)
            found.append({**row, "width": median_width(low[at], high[at])})
    return found


def _ends(ran: pd.DataFrame, columns: list[str]) -> tuple[FloatArray, FloatArray]:
    """``(n,)`` lower and upper end of each row's interval, in seconds."""
    sms = np.log2(ran[["sms_granted"]].to_numpy(dtype=np.float64))
    workload, fold = pd.factorize(ran["workload"])[0], ran["fold"].to_numpy()
    alike = ran.groupby(columns).ngroup().to_numpy() if columns else np.zeros(len(ran), dtype=np.int64)
    said = ran["predicted_s"].to_numpy()
    off = np.log(ran["latency_s"].to_numpy() / said)
    quantiles = np.empty((len(ran), 2))
    for own in (alike == each for each in np.unique(alike)):
        for out in (fold == each for each in np.unique(fold[own])):
            known = MondrianQuantiles((0,)).fit(sms[own & ~out], off[own & ~out], workload[own & ~out])
            quantiles[own & out] = known.quantiles(sms[own & out])
    low, high = said * np.exp(quantiles.T)
    return low, high


def _groups(ran: pd.DataFrame) -> dict[str, Any]:
    """Which rows are of which kind of workload: kernels by family, and PyTorch's calls."""
    calls = ran["is_call"].to_numpy()
    families = {str(name): (ran["family"] == name).to_numpy() & ~calls for name in ran["family"].unique()}
    return {**families, "PyTorch's calls": calls, "all": np.ones(len(ran), dtype=np.bool_)}
