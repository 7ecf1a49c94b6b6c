"""What the searches come to: a table and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from searches import OURS, SEARCHES, STOCK, STOCK_BUILT

Row = Mapping[str, Any]
MISSED = "not reached"
MOST = 2.5  # times the best, shown
COLOURS = dict(zip(SEARCHES, ("tab:gray", "tab:blue", "tab:orange"), strict=True))


def best_at(found: Mapping[str, Any], elapsed_s: float) -> float:
    """Latency of the kernel that a search would have given at this time; inf before the first."""
    known = [step for step in found["improvements"] if step["elapsed_s"] <= elapsed_s]
    return float(known[-1]["latency_s"]) if known else float("inf")


def time_to(found: Mapping[str, Any], latency_s: float) -> float:
    """Seconds until a search had a kernel that is as fast; inf if it never had."""
    reached = [step["elapsed_s"] for step in found["improvements"] if step["latency_s"] <= latency_s]
    return float(min(reached, default=np.inf))


def table(rows: Sequence[Row]) -> str:
    """Markdown: one row a case and search, then what ours saves over stock."""
    lines = [
        "| workload | SMs | search | measured | failed | seconds | best, us | after stock's time / stock "
        "| time to stock's latency, s |",
        "| --- | ---: | --- |" + " ---: |" * 6,
    ]
    for row in rows:
        stock = row["searches"][STOCK]
        final_s = best_at(stock, np.inf)
        for name, found in row["searches"].items():
            reached = time_to(found, final_s)
            lines.append(
                f"| {row['workload']} | {row['sms'] or 'whole'} | {name} | {found['measured']} "
                f"| {found['failed']} | {found['seconds']:.0f} | {best_at(found, np.inf) * 1e6:.2f} "
                f"| {best_at(found, stock['seconds']) / final_s:.3f} "
                f"| {f'{reached:.1f}' if np.isfinite(reached) else MISSED} |"
            )
    return "\n".join([*lines, "", *summaries(rows)])


def summaries(rows: Sequence[Row]) -> list[str]:
    """A sentence for each search and each way of stock that it is compared with, and the noise."""
    pairs = [(STOCK_BUILT, STOCK), (OURS, STOCK), (OURS, STOCK_BUILT)]
    sentences = [sentence for pair in pairs if (sentence := compared(rows, *pair))]
    steps = [s for row in rows for found in row["searches"].values() for s in found["improvements"]]
    if steps:
        noise = np.abs(np.array([s["repeat_s"] / s["latency_s"] for s in steps]) - 1)
        sentences.append(
            f"A/A: median {np.median(noise):.2%}, 90th percentile {np.quantile(noise, 0.9):.2%}."
        )
    return sentences


def compared(rows: Sequence[Row], name: str, other: str) -> str | None:
    """What a search gives when another is through, and how much sooner it has the other's best."""
    ratios, saved = [], []
    for searches in (row["searches"] for row in rows):
        if name not in searches or other not in searches:
            continue
        found, reference = searches[name], searches[other]
        final_s = best_at(reference, np.inf)
        ratios.append(best_at(found, reference["seconds"]) / final_s)
        saved.append(1 - min(1.0, time_to(found, final_s) / time_to(reference, final_s)))
    if not ratios:
        return None
    return (
        f"{name} beside {other}, {len(ratios)} cases: latency at equal time "
        f"{np.exp(np.mean(np.log(ratios))):.3f} (geometric mean), time to its latency cut by "
        f"{np.median(saved):.0%} (median), {min(saved):.0%} at least."
    )


def draw(rows: Sequence[Row], path: Path) -> None:
    """The best kernel so far over time, a panel a case."""
    columns = min(4, len(rows))
    figure, panels = plt.subplots(
        -(-len(rows) // columns),
        columns,
        figsize=(4 * columns, 3.4 * -(-len(rows) // columns)),
        layout="constrained",
        squeeze=False,
    )
    for axes, row in zip(panels.flat, rows, strict=False):
        for name, found in row["searches"].items():
            times = [s["elapsed_s"] for s in found["improvements"]] + [found["seconds"]]
            best = [s["latency_s"] * 1e6 for s in found["improvements"]]
            width = 2 if name == OURS else 1.3
            axes.step(times, [*best, best[-1]], where="post", color=COLOURS[name], linewidth=width)
        best_us = min(best_at(found, np.inf) for found in row["searches"].values()) * 1e6
        axes.set(ylim=(0.95 * best_us, MOST * best_us), xlim=(0, None), xlabel="seconds", ylabel="us")
        axes.set_title(f"{row['workload']}\n{row['sms'] or 'all'} SMs", fontsize=8)
        axes.grid(alpha=0.25, which="both")
    shown = [name for name in SEARCHES if any(name in row["searches"] for row in rows)]
    handles = [Line2D([], [], color=COLOURS[name]) for name in shown]
    figure.legend(handles, shown, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
