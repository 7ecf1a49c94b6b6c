"""Results of searches as a table and a plot."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter

FIRST = 16  # measurements that `costmodel tune` makes unless told otherwise
CURVE = "mean score after"  # so many measurements, the keys of what it holds
POINTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)


def read(folder: Path, searches: Sequence[str]) -> pd.DataFrame:
    """One row for each task, search and seed."""
    rows = [row for file in sorted(folder.glob("task-*.json")) for row in json.loads(file.read_text())]
    return pd.DataFrame([row for row in rows if row["search"] in searches])


def summary(results: pd.DataFrame, cap: int) -> dict[str, dict[str, Any]]:
    """Of each search: how many measurements it needs, how often it succeeds, and what 16 give."""
    lines = {}
    for name, group in results.groupby("search", sort=False):
        # A search ends when it has the best, at its cap, or where nothing is left.
        curves = np.array([np.pad(c, (0, cap - len(c)), mode="edge") for c in group["best_so_far"]])
        after_first = curves[:, min(FIRST, cap) - 1]
        line: dict[str, Any] = {"searches": len(group)}
        for eps in (5, 1):
            counts = group[f"n_{eps}"].fillna(np.inf).to_numpy(dtype=float)
            line |= {
                f"within {eps} %: median": said(counts, 0.5, cap),
                f"within {eps} %: p90": said(counts, 0.9, cap),
                f"within {eps} %: success": percent(np.isfinite(counts)),
            }
        points = [*(count for count in POINTS if count < cap), cap]
        lines[str(name)] = line | {
            f"within 5 % after {FIRST}": percent(after_first >= 1 / 1.05),
            f"score after {FIRST}, p10": f"{np.quantile(after_first, 0.1):.3f}",
            "failed kernels": f"{group['failed'].mean():.2f}",
            "ms a proposal": f"{1e3 * group['seconds'].mean():.0f}",
            CURVE: {str(count): round(float(curves[:, count - 1].mean()), 4) for count in points},
        }
    return lines


def markdown(table: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of ``summary`` for a README."""
    columns = [column for column in next(iter(table.values())) if column != CURVE]
    lines = [["search", *columns], ["---", *["---:"] * len(columns)]]
    lines += [[name, *(str(row[column]) for column in columns)] for name, row in table.items()]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def said(counts: np.ndarray, share: float, cap: int) -> str:
    """The least number of measurements with which this share of the searches succeeds."""
    count = np.quantile(counts, share, method="inverted_cdf")
    return f"{count:.0f}" if np.isfinite(count) else f"> {cap}"


def percent(holds: np.ndarray) -> str:
    return f"{holds.mean():.0%}".replace("%", " %")


def draw(table: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """Mean best score so far over the measurements made."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, row in table.items():
        if CURVE in row:
            axes.plot([int(count) for count in row[CURVE]], list(row[CURVE].values()), label=name)
    axes.set(xlabel="measurements", ylabel="mean score of the best so far")
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
