"""What the searches come to: a table and a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D
from searches import FAIR, OURS, STOCK, STOCK_BUILT

Row = Mapping[str, Any]
MOST = 2.5  # times the best, shown
# Told apart by who sees no colour, too.
STYLES = {
    STOCK: {"color": "#999999", "linestyle": "-"},
    STOCK_BUILT: {"color": "#0072B2", "linestyle": "--"},
    FAIR: {"color": "#0072B2", "linestyle": ":"},
    OURS: {"color": "black", "linestyle": "-"},
}
PAIRS = ((STOCK_BUILT, STOCK), (OURS, STOCK), (OURS, STOCK_BUILT), (OURS, FAIR), (FAIR, STOCK))


def best_at(found: Mapping[str, Any], elapsed_s: float) -> float:
    """Latency of the kernel that a search would have given at this time; inf before the first."""
    known = [step for step in found["improvements"] if step["elapsed_s"] <= elapsed_s]
    return float(known[-1]["latency_s"]) if known else float("inf")


def best_after(found: Mapping[str, Any], trials: int) -> float:
    """Latency of the kernel that a search would have given after so many trials; inf before the first."""
    known = [step for step in found["improvements"] if step["trial"] <= trials]
    return float(known[-1]["latency_s"]) if known else float("inf")


def time_to(found: Mapping[str, Any], latency_s: float) -> float:
    """Seconds until a search had a kernel that is as fast; inf if it never had."""
    reached = [step["elapsed_s"] for step in found["improvements"] if step["latency_s"] <= latency_s]
    return float(min(reached, default=np.inf))


def table(rows: Sequence[Row]) -> str:
    """Markdown: one row a case and search, then a sentence for each pair of searches."""
    lines = [
        "| workload | SMs | seed | search | measured | failed | seconds | best, us |",
        "| --- | ---: | ---: | --- |" + " ---: |" * 4,
    ]
    for row in rows:
        for name, found in row["searches"].items():
            lines.append(
                f"| {row['workload']} | {row['sms'] or 'whole'} | {row.get('seed', 1)} | {name} "
                f"| {found['measured']} | {found['failed']} | {found['seconds']:.0f} "
                f"| {best_at(found, np.inf) * 1e6:.2f} |"
            )
    return "\n".join([*lines, "", *summaries(rows)])


def summaries(rows: Sequence[Row]) -> list[str]:
    """Sentences: pairs of searches beside each other, and the noise."""
    return [*(sentence for pair in PAIRS for sentence in compared(rows, *pair)), *noise(rows)]


def noise(rows: Sequence[Row]) -> list[str]:
    """A sentence on how far two measurements of a kernel are apart; none where no kernel ran."""
    steps = [s for row in rows for found in row["searches"].values() for s in found["improvements"]]
    if not steps:
        return []
    apart = np.abs(np.array([s["repeat_s"] / s["latency_s"] for s in steps]) - 1)
    return [f"A/A: median {np.median(apart):.2%}, 90th percentile {np.quantile(apart, 0.9):.2%}."]


def compared(rows: Sequence[Row], name: str, other: str) -> list[str]:
    """What a search gives beside another, and how much sooner it has the other's best."""
    pairs = [(r["searches"][name], r["searches"][other]) for r in rows if {name, other} <= set(r["searches"])]
    pairs = [(found, reference) for found, reference in pairs if reference["improvements"]]
    if not pairs:
        return []
    at_end, saved = [], []
    for found, reference in pairs:
        final_s = best_at(reference, np.inf)
        at_end.append(best_at(found, reference["seconds"]) / final_s)
        saved.append(1 - min(1.0, time_to(found, final_s) / time_to(reference, final_s)))
    return [
        f"{name} beside {other}, {len(pairs)} cases: latency when {other} is through {geometric(at_end)}; "
        f"time to its latency cut by {np.median(saved):.0%} (median), {min(saved):.0%} at least.",
        *equal_effort(pairs),
    ]


def equal_effort(pairs: Sequence[tuple[Row, Row]]) -> list[str]:
    """Ratios at equal times and at equal trials, at the end of whichever ended first."""
    if any("trial" not in step for pair in pairs for found in pair for step in found["improvements"]):
        return []
    times, trials = [], []
    for found, reference in pairs:
        seconds = min(found["seconds"], reference["seconds"])
        count = min(found["measured"], reference["measured"])
        times.append(best_at(found, seconds) / best_at(reference, seconds))
        trials.append(best_after(found, count) / best_after(reference, count))
    return [f"  At equal times {geometric(times)}; after equal trials {geometric(trials)}."]


def geometric(ratios: Sequence[float]) -> str:
    """Mean and range; a ratio of a search that had nothing yet is left out and counted."""
    known = [ratio for ratio in ratios if 0 < ratio < np.inf]
    if not known:
        return "unknown"
    missing = f", {len(ratios) - len(known)} unknown" if len(known) < len(ratios) else ""
    mean = np.exp(np.mean(np.log(known)))
    return f"{mean:.3f} (geometric mean; {min(known):.3f} to {max(known):.3f}{missing})"


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
        found_some = {name: found for name, found in row["searches"].items() if found["improvements"]}
        for name, found in found_some.items():
            times = [s["elapsed_s"] for s in found["improvements"]] + [found["seconds"]]
            best = [s["latency_s"] * 1e6 for s in found["improvements"]]
            width = 2 if name == OURS else 1.3
            axes.step(times, [*best, best[-1]], where="post", linewidth=width, **STYLES[name])
        best_us = min((best_at(found, np.inf) for found in found_some.values()), default=1e-6) * 1e6
        axes.set(ylim=(0.95 * best_us, MOST * best_us), xlim=(0, None), xlabel="seconds", ylabel="us")
        seed = f", seed {row['seed']}" if "seed" in row else ""
        axes.set_title(f"{row['workload']}\n{row['sms'] or 'all'} SMs{seed}", fontsize=8)
        axes.grid(alpha=0.25, which="both")
    shown = [name for name in STYLES if any(name in row["searches"] for row in rows)]
    handles = [Line2D([], [], **STYLES[name]) for name in shown]
    figure.legend(handles, shown, loc="outside lower center", ncols=3, frameon=False)
    figure.savefig(path, dpi=150)
