"""Results of searches as a table and a plot."""

import json
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.ticker import StrMethodFormatter

FIRST = 16  # measurements that `costmodel tune` makes unless told otherwise


def read(folder: Path) -> pd.DataFrame:
    """One row for each task, search and seed."""
    files = sorted(folder.glob("task-*.json"))
    return pd.DataFrame([row for file in files for row in json.loads(file.read_text())])


def summary(results: pd.DataFrame, cap: int) -> pd.DataFrame:
    """One row a search: how many measurements it needs, how often it succeeds, and what 16 give."""
    lines = {}
    for name, group in results.groupby("search", sort=False):
        after_first = np.array([curve[:FIRST][-1] for curve in group["best_so_far"]])
        lines[name] = {"searches": len(group)}
        for eps in (5, 1):
            counts = group[f"n_{eps}"].fillna(np.inf).to_numpy(dtype=float)
            lines[name] |= {
                f"within {eps} %: median": said(counts, 0.5, cap),
                f"within {eps} %: p90": said(counts, 0.9, cap),
                f"within {eps} %: success": percent(np.isfinite(counts)),
            }
        lines[name] |= {
            f"within 5 % after {FIRST}": percent(after_first >= 1 / 1.05),
            f"score after {FIRST}, p10": f"{np.quantile(after_first, 0.1):.3f}",
            "failed kernels": f"{group['failed'].mean():.2f}",
            "ms a proposal": f"{1e3 * group['seconds'].mean():.0f}",
        }
    return pd.DataFrame(lines).T


def markdown(table: pd.DataFrame) -> str:
    """The table of ``summary`` for a README."""
    lines = [["search", *table.columns], ["---", *["---:"] * table.shape[1]]]
    lines += [[str(name), *map(str, row)] for name, row in zip(table.index, table.to_numpy(), strict=True)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def said(counts: np.ndarray, share: float, cap: int) -> str:
    """The least number of measurements with which this share of the searches succeeds."""
    count = np.quantile(counts, share, method="inverted_cdf")
    return f"{count:.0f}" if np.isfinite(count) else f"> {cap}"


def percent(holds: np.ndarray) -> str:
    return f"{holds.mean():.0%}".replace("%", " %")


def draw(results: pd.DataFrame, cap: int, path: Path) -> None:
    """Mean best score so far over the measurements made."""
    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, group in results.groupby("search", sort=False):
        # A search ends when it has the best, at its cap, or where nothing is left.
        curves = [np.pad(curve, (0, cap - len(curve)), mode="edge") for curve in group["best_so_far"]]
        axes.plot(np.arange(1, cap + 1), np.mean(curves, axis=0), label=name)
    axes.set(xlabel="measurements", ylabel="mean score of the best so far", xlim=(1, cap))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
