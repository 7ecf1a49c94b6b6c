"""Latency over sparsity, firing rate and skew: measured, and said without a measurement. Loads matplotlib."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.records import Workload
from costmodel.report._figures import NotebookFigure, save_figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^DvPX"
_SMS = (8, 32, 132)


@dataclass(frozen=True)
class Sweep:
    """Workloads that differ in one thing.

    Attributes:
        file: Name of the picture.
        kind: Kind of the workloads.
        dims: What they have in common.
        over: The dimension that differs.
        per: What it is divided by to be shown.
        label: What it is.
    """

    file: str
    kind: str
    dims: Mapping[str, int]
    over: str
    per: float
    label: str


SWEEPS = (
    Sweep(
        "sparsity.png",
        "cuda.sparse_linear_float16",
        {"m": 16, "n": 4096, "k": 4096, "g": 32, "v": 32, "u": 1},
        "s",
        1.0,
        "sparsity, %",
    ),
    Sweep(
        "rate.png",
        "cuda.spike_delivery",
        {"n": 100_000, "c": 100, "d": 4},
        "r",
        1e5,
        "share of neurons that spike",
    ),
    Sweep(
        "skew.png",
        "cuda.embedding_bag",
        {"r": 1_000_000, "d": 64, "b": 2048, "l": 32},
        "y",
        10.0,
        "lookups of the hottest 1 % of rows, %",
    ),
)


def draw(rows: pd.DataFrame, learner: str, folder: Path) -> None:
    """A picture a sweep: the fastest recorded kernel of each way, and what a learner says it takes.

    Args:
        rows: What ``predicted`` gives, held out by shape: nothing of the sweep's shape was learned.
        learner: The learner that is shown.
        folder: Where pictures go.
    """
    said = rows[rows["learner"] == learner]
    for sweep in SWEEPS:
        table = _points(said, sweep)
        if not table.empty:
            save_figure(_picture(table, sweep), folder / sweep.file)


def _points(rows: pd.DataFrame, sweep: Sweep) -> pd.DataFrame:
    """The fastest of each way at each point of a sweep."""
    found = list[dict[str, Any]]()
    own = rows[(rows["kind"] == sweep.kind) & np.isfinite(rows["latency_s"])]
    for (name, sms, way), group in own.groupby(["workload", "sms_granted", "way"], observed=True):
        dims = Workload.parse(str(name)).dims
        if any(dims[dim] != size for dim, size in sweep.dims.items()):
            continue
        best = group.loc[group["latency_s"].idxmin()]
        place = {"x": dims[sweep.over] / sweep.per, "sms": int(sms), "way": str(way)}
        found.append({**place, "us": 1e6 * best["latency_s"], "said_us": 1e6 * best["predicted_s"]})
    return pd.DataFrame(found)


def _picture(table: pd.DataFrame, sweep: Sweep) -> NotebookFigure:
    shown = [sms for sms in _SMS if sms in set(table["sms"])]
    figure = NotebookFigure(figsize=(3.4 * len(shown), 4.2), layout="constrained")
    panels: Sequence[Any] = np.atleast_1d(figure.subplots(1, len(shown), sharey=True))
    for axes, sms in zip(panels, shown, strict=True):
        here = table[table["sms"] == sms].sort_values("x")
        for i, (way, line) in enumerate(here.groupby("way")):
            style = {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
            axes.plot(line["x"], line["us"], label=str(way), **style)
            axes.plot(line["x"], line["said_us"], linestyle=":", alpha=0.8, **{**style, "marker": ""})
        axes.set_yscale("log")
        if sweep.over == "r":
            axes.set_xscale("log")
        axes.set_title(f"{sms} SMs", fontsize=10)
        axes.set_xlabel(sweep.label, fontsize=9)
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel(
        "microseconds, the fastest recorded kernel;\ndotted: said without a measurement", fontsize=9
    )
    panels[-1].legend(frameon=False, fontsize=8)
    return figure
