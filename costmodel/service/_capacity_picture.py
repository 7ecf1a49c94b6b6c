"""Kernels an hour over builders, a line for each number of GPUs."""

from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from costmodel.service._simulate import Simulated

if TYPE_CHECKING:
    from costmodel.report._figures import NotebookFigure


_MARKERS = {"builders": "o", "GPUs": "s", "engine": "^", "jobs": "x"}


def plot_throughput(found: Sequence[Simulated], title: str = "") -> "NotebookFigure":
    """Plot kernels per hour over builders; markers show the bottleneck.

    Args:
        found: Simulations, as returned by ``simulate_grid``.
        title: Title of the plot.
    """
    from matplotlib.lines import Line2D

    from costmodel.report._figures import NotebookFigure

    figure = NotebookFigure(figsize=(7.5, 4.8), layout="constrained")
    axes = figure.subplots()
    for gpus, line in groupby(found, key=lambda one: one.gpus):
        points = list(line)
        rates = [one.kernels_per_hour for one in points]
        builders = [one.builders for one in points]
        (drawn,) = axes.plot(builders, rates, linewidth=1.2, label=f"{gpus} GPU{'s' if gpus > 1 else ''}")
        for x, y, one in zip(builders, rates, points, strict=True):
            axes.plot(x, y, marker=_MARKERS[one.limit], color=drawn.get_color(), markersize=5)
    axes.set(
        xscale="log", yscale="log", xlabel="builder cores", ylabel="kernels measured an hour", title=title
    )
    axes.grid(which="both", alpha=0.2)
    lines = axes.legend(loc="upper left", frameon=False)
    axes.add_artist(lines)
    limits = {one.limit for one in found}
    handles = [
        Line2D([], [], linestyle="", marker=marker, color="0.3", label=name)
        for name, marker in _MARKERS.items()
        if name in limits
    ]
    axes.legend(handles=handles, title="held up by", loc="lower right", frameon=False)
    return figure
