"""Results of searches as a table and as curves."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from kit.judging import bootstrap_interval
from kit.results import markdown_table, rounded

OVER_FIRST = "measurements until within 5 % over those of the first search, with 95 % interval"
FIRST = 16  # measurements that `costmodel tune` makes unless told otherwise
POINTS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192)  # measurements, of a curve


def read(folder: Path, searches: Sequence[str]) -> pd.DataFrame:
    """One row for each task, search and seed, the searches in this order."""
    rows = [row for file in sorted(folder.glob("task-*.json")) for row in json.loads(file.read_text())]
    frame = pd.DataFrame([row for row in rows if row["search"] in searches])
    return frame.sort_values("search", key=lambda names: names.map(list(searches).index), kind="stable")


def summary(results: pd.DataFrame, cap: int) -> dict[str, dict[str, Any]]:
    """Of each search: how many measurements it needs, how often it succeeds, and what 16 give."""
    lines, over = {}, over_first(results)
    for name, group in results.groupby("search", sort=False):
        after_first = to_the_cap(group, cap)[:, min(FIRST, cap) - 1]
        line: dict[str, Any] = {"searches": len(group)}
        for eps in (5, 1):
            counts = group[f"n_{eps}"].fillna(np.inf).to_numpy(dtype=float)
            line |= {
                f"within {eps} %: median": said(counts, 0.5, cap),
                f"within {eps} %: p90": said(counts, 0.9, cap),
                f"within {eps} %: success": percent(np.isfinite(counts)),
            }
        lines[str(name)] = line | {
            f"within 5 % after {FIRST}": percent(after_first >= 1 / 1.05),
            f"score after {FIRST}, p10": f"{np.quantile(after_first, 0.1):.3f}",
            "failed kernels": f"{group['failed'].mean():.2f}",
            "ms a proposal": f"{1e3 * group['seconds'].mean():.0f}",
            OVER_FIRST: over[str(name)],
        }
    return lines


def over_first(results: pd.DataFrame) -> dict[str, list[float]]:
    """Measurements until within 5 % over those of the first search: ratio of medians, and its 95 % interval.

    Tasks are drawn again (2,000 bootstraps). A search of fewer tasks is compared on these; a ratio is inf
    where less than half of the runs of a search succeed.
    """
    counts = results.assign(n_5=results["n_5"].fillna(np.inf))
    of = {
        name: {task: runs["n_5"].to_numpy(dtype=float) for task, runs in group.groupby("task")}
        for name, group in counts.groupby("search", sort=False)
    }
    first = of[next(iter(of))]
    return {str(name): _ratio(runs, first) for name, runs in of.items()}


def _ratio(runs: Mapping[str, np.ndarray], first: Mapping[str, np.ndarray]) -> list[float]:
    tasks = sorted(set(runs) & set(first))

    def of(drawn: Sequence[int]) -> float:
        medians = [
            np.quantile(np.concatenate([each[tasks[i]] for i in drawn]), 0.5, method="inverted_cdf")
            for each in (runs, first)
        ]
        return float(medians[0] / medians[1]) if np.isfinite(medians[1]) else np.nan

    ends = bootstrap_interval(of, np.arange(len(tasks)), method="inverted_cdf")
    return rounded([of(range(len(tasks))), *ends], 2)


def curves(results: pd.DataFrame, cap: int) -> dict[str, dict[str, Any]]:
    """Of each search: how many there are, and their mean score after so many measurements."""
    counts = [*(count for count in POINTS if count < 0.9 * cap), cap]
    found = {}
    for name, group in results.groupby("search", sort=False):
        means = to_the_cap(group, cap).mean(axis=0)
        after = {str(count): round(float(means[count - 1]), 4) for count in counts}
        found[str(name)] = {"searches": len(group), "mean score after": after}
    return found


def to_the_cap(group: pd.DataFrame, cap: int) -> np.ndarray:
    """``(n, cap)`` best score so far; a search ends at the best, at its cap, or where nothing is left."""
    return np.array([np.pad(curve, (0, cap - len(curve)), mode="edge") for curve in group["best_so_far"]])


def markdown(table: Mapping[str, Mapping[str, Any]]) -> str:
    """The table of ``summary`` for a README."""
    columns = [column for column in next(iter(table.values())) if column not in ("tasks", OVER_FIRST)]
    lines = [[name, *(row[column] for column in columns)] for name, row in table.items()]
    return markdown_table(["search", *columns], lines)


def said(counts: np.ndarray, share: float, cap: int) -> str:
    """The least number of measurements with which this share of the searches succeeds."""
    count = np.quantile(counts, share, method="inverted_cdf")
    return f"{count:.0f}" if np.isfinite(count) else f"> {cap}"


def percent(holds: np.ndarray) -> str:
    return f"{holds.mean():.0%}".replace("%", " %")
