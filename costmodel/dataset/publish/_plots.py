"""The pictures beside a dataset's card."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.publish._describe import Description
from costmodel.dataset.publish._tasks import Budget, Task
from costmodel.errors import CostModelError

GAP_PLOT = "budget_gap.png"
NOISE_PLOT = "noise.png"
COVERAGE_PLOT = "coverage.png"

_FLOOR_PERCENT = 1e-3  # a logarithmic axis cannot show that two visits agree to the last digit


def write_plots(description: Description, shifts: pd.DataFrame, folder: Path) -> tuple[str, ...]:
    """Write all pictures into a folder and give their names.

    Args:
        description: Of the dataset to show.
        shifts: Its ``visit_shifts``.
        folder: Made if it is not there.

    Raises:
        CostModelError: The folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plot_budget_gap(description, folder / GAP_PLOT)
        plot_noise(shifts, folder / NOISE_PLOT)
        plot_coverage(description, folder / COVERAGE_PLOT)
    except OSError as error:
        raise CostModelError(f"Cannot write pictures to {folder}: {error.strerror}.") from error
    return GAP_PLOT, NOISE_PLOT, COVERAGE_PLOT


def plot_budget_gap(description: Description, file: Path) -> None:
    """Heat map of the budget gap, workload x budget, one a device; white where it is not known."""
    workloads = list(dict.fromkeys(task.workload for task in description.tasks))
    budgets = [[b for b in description.budgets if b.device == device] for device in description.devices]
    figure = _figure(4.6 + 0.55 * len(description.budgets), 1.9 + 0.26 * len(workloads))
    widths = [len(of_device) for of_device in budgets]
    panels = figure.subplots(1, len(budgets), sharey=True, squeeze=False, width_ratios=widths)[0]
    for axes, device, of_device in zip(panels, description.devices, budgets, strict=True):
        image = _draw_gaps(axes, description.tasks, workloads, of_device)
        axes.set_title(device, fontsize=10)
    panels[0].set_yticks(range(len(workloads)), workloads, fontsize=8)
    figure.suptitle("Cost of running the full-device choice on fewer SMs")
    bar = figure.colorbar(image, ax=list(panels), extend="max", fraction=0.04, pad=0.02)
    bar.set_label("budget gap in %")
    _save(figure, file)


def _draw_gaps(axes: Any, tasks: Iterable[Task], workloads: list[str], budgets: Sequence[Budget]) -> Any:
    """The heat map of one device."""
    gaps = np.full((len(workloads), len(budgets)), np.nan)
    columns = {budget.platform: column for column, budget in enumerate(budgets)}
    for task in tasks:
        if task.platform in columns:
            gaps[workloads.index(task.workload), columns[task.platform]] = task.budget_gap
    # A choice that fails gets the darkest colour; imshow would leave an infinite gap white, as if unknown.
    image = axes.imshow(100 * np.minimum(gaps, 1e3), cmap="YlOrRd", vmin=0, vmax=100, aspect="auto")
    _annotate(axes, gaps)
    axes.set_xticks(range(len(budgets)), [budget.label.replace(" ", "\n") for budget in budgets], fontsize=8)
    axes.set_xlabel("SMs granted")
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return image


def plot_coverage(description: Description, file: Path) -> None:
    """Heat map of the share of known candidates that a platform measured, with the flatness in each cell."""
    workloads = list(dict.fromkeys(cell.workload for cell in description.coverage))
    platforms = list(dict.fromkeys(cell.platform for cell in description.coverage))
    figure = _figure(5.2 + 0.32 * len(platforms), 3.6 + 0.22 * len(workloads))
    axes = figure.subplots()
    shape = len(workloads), len(platforms)
    share = np.array([cell.share for cell in description.coverage]).reshape(shape)
    image = axes.imshow(100 * share, cmap="Blues", vmin=0, vmax=100, aspect="auto")
    for index, cell in enumerate(description.coverage):
        if not np.isnan(cell.near_best_share):
            row, column = divmod(index, len(platforms))
            color = "white" if cell.share > 0.6 else "black"
            text = f"{100 * cell.near_best_share:.2g}"
            axes.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
    axes.set_xticks(range(len(platforms)), platforms, fontsize=7, rotation=90)
    axes.set_yticks(range(len(workloads)), workloads, fontsize=7)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    colour, number = "known candidates that were measured", "working kernels within 10 % of the best"
    axes.set_title(f"Colour: {colour}, in %\nNumber: {number}, in %", fontsize=9)
    figure.colorbar(image, ax=axes, fraction=0.04, pad=0.02).ax.tick_params(labelsize=7)
    _save(figure, file)


def plot_noise(shifts: pd.DataFrame, file: Path) -> None:
    """A/A shift of each pair of visits against its latency, with quantiles of each decade of latency."""
    figure = _figure(6.4, 4.2)
    axes = figure.subplots()
    if shifts.empty:
        axes.text(0.5, 0.5, "no kernel was measured twice", ha="center", transform=axes.transAxes)
    else:
        _draw_shifts(axes, 1e6 * shifts["latency_s"].to_numpy(), 100 * shifts["shift"].to_numpy())
    axes.set_xlabel("latency in us")
    axes.set_ylabel("shift between two visits in %")
    axes.set_title(f"A/A noise: {len(shifts):,} kernels measured twice on a platform")
    _save(figure, file)


def _draw_shifts(axes: Any, latency_us: NDArray[np.float64], percent: NDArray[np.float64]) -> None:
    percent = np.maximum(percent, _FLOOR_PERCENT)
    axes.scatter(latency_us, percent, s=5, alpha=0.3, linewidths=0, color="tab:blue", rasterized=True)
    decades = np.floor(np.log10(latency_us))
    for quantile, style, label in ((0.5, "-", "median of a decade"), (0.9, "--", "90th percentile")):
        lines = [np.quantile(percent[decades == decade], quantile) for decade in np.unique(decades)]
        starts = 10 ** np.unique(decades)
        axes.hlines(lines, starts, 10 * starts, colors="black", linestyles=style, label=label)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.xaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_major_formatter("{x:g}")
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)


def _annotate(axes: Any, gaps: NDArray[np.float64]) -> None:
    for (row, column), gap in np.ndenumerate(gaps):
        if not np.isnan(gap):
            text = f"{100 * gap:.0f}" if np.isfinite(gap) else "fails"
            color = "white" if gap > 0.7 else "black"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color=color)


def _figure(width: float, height: float) -> Any:
    # Figure without pyplot: no window system, and no state that a caller's own plots would share.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, file: Path) -> None:
    figure.savefig(file, dpi=150, metadata={"Software": None})
