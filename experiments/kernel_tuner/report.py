"""Evaluations until near the best, of each strategy: a table, its summary and a picture."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np

OURS, CONSENSUS = "ours", "mean over the other GPUs"
NEAR = {"5 %": 1.05, "1 %": 1.01}
_COLOURS = ("#D55E00", "#0072B2", "#009E73", "#CC79A7", "#56B4E9")  # Okabe and Ito's
_DASHES = ("--", "-", "-.", ":")
_MARKERS = ("o", "s", "^", "v", "D", "P", "X")
Rows = Sequence[Mapping[str, Any]]


def summary(rows: Rows, names: Sequence[str], evaluations: int) -> dict[str, Any]:
    """Figures of each strategy over all cases and of each case, and how the goal stands."""
    cases = sorted({(row["kernel"], row["device"]) for row in rows})
    pooled = {name: _figures(of(rows, name), evaluations) for name in names}
    by_case = {
        f"{kernel}, {device}": {
            name: _figures(
                [r for r in of(rows, name) if (r["kernel"], r["device"]) == (kernel, device)], evaluations
            )
            for name in names
        }
        for kernel, device in cases
    }
    return {"pooled": pooled, "goal": _goal(pooled, by_case), "cases": by_case}


def of(rows: Rows, name: str) -> list[Mapping[str, Any]]:
    return [row for row in rows if row["method"] == name]


def _figures(rows: Rows, evaluations: int) -> dict[str, Any]:
    """Quantiles are the least number with which that share of the sessions is near; None if none is."""
    found: dict[str, Any] = {"sessions": len(rows)}
    for near, ratio in NEAR.items():
        needed = np.array([_needed(row["ratios"], ratio) for row in rows])
        for label, share in (("median", 0.5), ("p90", 0.9)):
            quantile = float(np.quantile(needed, share, method="inverted_cdf"))
            found[f"{near}: {label}"] = quantile if np.isfinite(quantile) else None
        found[f"{near}: mean"] = round(float(np.minimum(needed, evaluations).mean()), 1)
        found[f"{near}: success"] = round(float(np.isfinite(needed).mean()), 3)
    failures = [sum(map(np.isinf, row["ratios"])) for row in rows]
    return {**found, "failures": round(float(np.mean(failures)), 2)}


def _needed(ratios: Iterable[float], near: float) -> float:
    """Evaluations until one is so near; inf where none is."""
    return next((i for i, ratio in enumerate(ratios, start=1) if ratio <= near), np.inf)


def _goal(pooled: Mapping[str, Any], by_case: Mapping[str, Any]) -> dict[str, Any]:
    """Ours over the best strategy of Kernel Tuner, by the median evaluations until within 5 %."""
    key = "5 %: median"

    def best_of(figures: Mapping[str, Any]) -> str:
        strategies = [name for name in figures if name not in (OURS, CONSENSUS)]
        return min(strategies, key=lambda name: figures[name][key] or np.inf)

    def reached(figures: Mapping[str, Any]) -> bool:
        theirs = figures[best_of(figures)][key] or np.inf
        return (figures[OURS][key] or np.inf) <= theirs / 10.0

    best = best_of(pooled)
    return {
        "best strategy": best,
        "its median": pooled[best][key],
        "ours": pooled[OURS][key],
        "reached": reached(pooled),
        "cases in which the best strategy of the case needs ten times ours": sum(
            map(reached, by_case.values())
        ),
        "cases": len(by_case),
    }


def markdown(table: Mapping[str, Any], evaluations: int) -> str:
    """Tables for README.md."""
    columns = [f"{near}: {label}" for near in NEAR for label in ("median", "mean", "p90", "success")]
    lines = [_line("strategy", *columns, "failures"), _line("---", *["---:"] * (len(columns) + 1))]
    for name, figures in table["pooled"].items():
        shown = [_shown(column, figures[column], evaluations) for column in columns]
        lines.append(_line(name, *shown, figures["failures"]))
    names = list(table["pooled"])
    lines += ["", _line("within 5 %, median", *names), _line("---", *["---:"] * len(names))]
    for case, by_name in table["cases"].items():
        medians = [_shown("median", by_name[name]["5 %: median"], evaluations) for name in names]
        lines.append(_line(case, *medians))
    return "\n".join([*lines, "", str(table["goal"])])


def _line(*cells: Any) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _shown(column: str, figure: float | None, evaluations: int) -> str:
    if figure is None:
        return f"> {evaluations}"
    if "success" in column:
        return f"{100 * figure:.0f} %"
    return f"{figure:.1f}" if "mean" in column else f"{figure:.0f}"


def draw(rows: Rows, names: Sequence[str], evaluations: int, path: Path) -> None:
    """Best time over the best so far, after each evaluation: the median over cases of that over seeds."""
    figure, axes = plt.subplots(figsize=(8.0, 4.2), layout="constrained")
    cases = sorted({(row["kernel"], row["device"]) for row in rows})
    for name in names:
        curves = [
            np.median(
                [
                    best_so_far(r["ratios"], evaluations)
                    for r in of(rows, name)
                    if (r["kernel"], r["device"]) == case
                ],
                axis=0,
            )
            for case in cases
        ]
        axes.plot(
            np.arange(1, evaluations + 1),
            np.median(curves, axis=0),
            label=name,
            **_style(names, name, evaluations),
        )
    axes.set(xscale="log", xlabel="evaluations", ylabel="best of all / best so far", ylim=(0.3, 1.01))
    axes.grid(alpha=0.3)
    figure.legend(fontsize=8, loc="outside right upper")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _style(names: Sequence[str], name: str, evaluations: int) -> dict[str, Any]:
    """How a line looks: marker and dashes tell it without its colour."""
    if name == OURS:
        return {"color": "black", "linewidth": 2.2}
    place = names.index(name)
    marked = (round(1.35**step) for step in range(3 + place % 3, 19, 3))
    return {
        "color": _COLOURS[place % len(_COLOURS)],
        "linestyle": _DASHES[place % len(_DASHES)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "markevery": [each for each in marked if each < evaluations],
        "markersize": 5,
        "linewidth": 1.2,
    }


def best_so_far(ratios: Sequence[float], evaluations: int) -> list[float]:
    """``(evaluations,)`` the best score so far; the last one holds on where the session ended."""
    best = list(itertools.accumulate((1.0 / ratio for ratio in ratios), max))
    return (best + best[-1:] * evaluations)[:evaluations]
