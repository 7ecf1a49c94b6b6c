"""Pictures of a search: latency over SM budgets, progress, and predicted against measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.tuning._findings import (
    BEST_KNOWN,
    BEST_MEASURED,
    CHOSEN,
    LIBRARY,
    WHOLE_CHOICE,
    BudgetCurve,
)

# Blue, vermilion and green of Okabe and Ito's palette, which colour-blind readers can tell apart.
_BLUE, _VERMILION, _GREEN, _GREY = "#0072B2", "#D55E00", "#009E73", "#999999"
_BEST: dict[str, Any] = {
    "color": _GREY,
    "linestyle": ":",
    "linewidth": 2.0,
    "marker": "o",
    "markersize": 4,
}
_STYLES: dict[str, dict[str, Any]] = {
    LIBRARY: {"color": _GREEN, "linestyle": "-.", "linewidth": 1.6, "marker": "^", "markersize": 5},
    BEST_KNOWN: _BEST,
    BEST_MEASURED: _BEST,
    WHOLE_CHOICE: {"color": _VERMILION, "linestyle": "--", "linewidth": 2.0, "marker": "s", "markersize": 6},
    CHOSEN: {"color": _BLUE, "linestyle": "-", "linewidth": 2.4, "marker": "o", "markersize": 7},
}


@dataclass(frozen=True)
class ProgressCurve:
    """What a search had found after each trial.

    Attributes:
        measured: ``(n,)`` value of each trial; inf for a failure. Empty where single trials have no value.
        best: ``(n,)`` value of the best so far; inf until there is one.
        label: What the value is, with its unit.
    """

    measured: FloatArray
    best: FloatArray
    label: str


@dataclass(frozen=True)
class PredictedPoints:
    """Predicted and measured latency of the trials on one budget.

    Attributes:
        sms: The budget.
        predicted_s: ``(n,)`` seconds predicted before the measurement.
        measured_s: ``(n,)`` seconds measured; failures are left out.
    """

    sms: int
    predicted_s: FloatArray
    measured_s: FloatArray


def plot_curves(curves: Sequence[BudgetCurve], *, unit: str, sms: Sequence[int], title: str = "") -> Any:
    """A figure of latency over SM budgets, both on a logarithmic axis; the budgets tuned for are marked.

    Args:
        curves: One line each, the last on top.
        unit: What a budget counts, such as ``SMs``.
        sms: The budgets tuned for.
        title: First lines above the picture.
    """
    from matplotlib.ticker import FixedLocator, NullLocator

    figure, axes = _figure()
    for curve in curves:
        points = sorted(curve.latency_s.items())
        axes.plot(
            [x for x, _ in points], [1e6 * y for _, y in points], label=curve.label, **_STYLES[curve.label]
        )
    for budget in sms:
        axes.axvline(budget, color=_BLUE, alpha=0.18, linewidth=9, zorder=0)
    budgets = sorted({budget for curve in curves for budget in curve.latency_s})
    # Of a device whose SMs nobody counted, all of them are 0.
    scale = "log" if budgets[0] > 0 else "linear"
    axes.set(xscale=scale, yscale="log", xlabel=f"{unit} granted", ylabel="latency (µs)")
    axes.xaxis.set(major_locator=FixedLocator(budgets), minor_locator=NullLocator())
    axes.xaxis.set_major_formatter("{x:g}")
    _plain_ticks(axes.yaxis)
    axes.tick_params(axis="x", labelsize=9 if len(budgets) < 10 else 7)
    axes.legend(frameon=False)
    axes.set_title(title)
    return figure


def plot_progress(progress: ProgressCurve) -> Any:
    """A figure of the best so far over the trials."""
    figure, axes = _figure()
    trials = np.arange(1, len(progress.best) + 1)
    if progress.measured.size:
        axes.plot(trials, _finite(progress.measured), ".", color=_GREY, markersize=7, label="each trial")
    axes.step(trials, _finite(progress.best), where="post", color=_BLUE, linewidth=2.2, label="best so far")
    axes.set(xlabel="candidates measured", ylabel=progress.label)
    axes.set_ylim(bottom=0.0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.legend(frameon=False)
    return figure


def plot_predictions(points: Sequence[PredictedPoints], *, unit: str) -> Any:
    """A figure of predicted against measured latency, a colour a budget; equal on the dotted line."""
    from matplotlib import colormaps

    figure, axes = _figure()
    shades = colormaps["viridis"](np.linspace(0.0, 0.9, len(points)))
    for part, shade in zip(points, shades, strict=True):
        label = f"{part.sms} {unit}"
        axes.loglog(
            1e6 * part.measured_s, 1e6 * part.predicted_s, "o", markersize=4, color=shade, label=label
        )
    every = np.concatenate([np.append(part.predicted_s, part.measured_s) for part in points])
    ends = 1e6 * np.array([every.min(), every.max()])
    axes.loglog(ends, ends, color=_GREY, linestyle=":", zorder=0)
    axes.set(xlabel="measured (µs)", ylabel="predicted before it was measured (µs)")
    for axis in (axes.xaxis, axes.yaxis):
        _plain_ticks(axis)
    axes.legend(frameon=False, fontsize=8, ncols=1 + len(points) // 7)
    return figure


def _plain_ticks(axis: Any) -> None:
    """Ticks of a logarithmic axis as plain numbers, several a decade."""
    from matplotlib.ticker import LogLocator, NullLocator

    axis.set(major_locator=LogLocator(subs=(1, 1.5, 2, 3, 5, 7)), minor_locator=NullLocator())
    axis.set_major_formatter("{x:g}")


def _figure() -> tuple[Any, Any]:
    """An empty figure and its axes."""
    from costmodel.report._figures import NotebookFigure

    figure = NotebookFigure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.grid(True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def _finite(values: FloatArray) -> FloatArray:
    """Values to draw: nothing where there is none."""
    return np.where(np.isfinite(values), values, np.nan)
