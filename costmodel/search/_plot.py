"""A picture of latency over SM budgets."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.errors import CostModelError
from costmodel.search._comparison import BEST_KNOWN, CHOSEN, WHOLE_CHOICE, BudgetCurve

# Blue and vermilion of Okabe and Ito's palette, which colour-blind readers can tell apart.
_STYLES: dict[str, dict[str, Any]] = {
    BEST_KNOWN: {"color": "#999999", "linestyle": ":", "linewidth": 2.0, "marker": "o", "markersize": 4},
    WHOLE_CHOICE: {"color": "#D55E00", "linestyle": "--", "linewidth": 2.0, "marker": "s", "markersize": 6},
    CHOSEN: {"color": "#0072B2", "linestyle": "-", "linewidth": 2.4, "marker": "o", "markersize": 7},
}


def plot_curves(path: Path, curves: Sequence[BudgetCurve], *, title: str, unit: str, sms: int) -> None:
    """Draw latency over SM budgets, both on a logarithmic axis, and mark the budget that was tuned for.

    Args:
        path: PNG to write; its folder is made.
        curves: One line each, the last on top.
        title: First line above the picture.
        unit: What a budget counts, such as ``SMs``.
        sms: The budget tuned for.

    Raises:
        CostModelError: The file cannot be written.
    """
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, LogLocator, NullLocator

    figure = Figure(figsize=(7.5, 4.6), dpi=150, layout="constrained")
    axes = figure.subplots()
    for curve in curves:
        points = sorted(curve.latency_s.items())
        axes.plot(
            [x for x, _ in points], [1e6 * y for _, y in points], label=curve.label, **_STYLES[curve.label]
        )
    axes.axvline(sms, color="#0072B2", alpha=0.18, linewidth=9, zorder=0)
    axes.set(xscale="log", yscale="log", xlabel=f"{unit} granted", ylabel="latency (µs)", title=title)
    budgets = sorted({budget for curve in curves for budget in curve.latency_s})
    axes.xaxis.set(major_locator=FixedLocator(budgets), minor_locator=NullLocator())
    axes.yaxis.set(major_locator=LogLocator(subs=(1, 1.5, 2, 3, 5, 7)), minor_locator=NullLocator())
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.grid(True, alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, format="png")
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error
