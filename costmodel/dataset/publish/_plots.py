"""The pictures of a dataset's card."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.dataset.publish._describe import DatasetDescription
from costmodel.dataset.publish._tasks import Budget, Coverage
from costmodel.errors import CostModelError
from costmodel.records._workload import Workload

T = TypeVar("T")

GAP_PLOT = "budget_gap.png"
NOISE_PLOT = "noise.png"
COVERAGE_PLOT = "coverage.png"

_MOST_ROWS = 200  # of a heat map; then kinds of a single workload are one
_FLOOR_PERCENT = 1e-3  # a logarithmic axis cannot show that two visits agree to the last digit


def write_plots(description: DatasetDescription, shifts: pd.DataFrame, folder: Path) -> tuple[str, ...]:
    """Write all pictures into a folder and return their file names.

    Args:
        description: Description of the dataset to show.
        shifts: The ``visit_shifts`` of the dataset.
        folder: Output folder, created if missing.

    Raises:
        CostModelError: If the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        plot_budget_gap(description, folder / GAP_PLOT)
        plot_noise(shifts, folder / NOISE_PLOT)
        plot_coverage(description, folder / COVERAGE_PLOT)
    except OSError as error:
        raise CostModelError(f"Cannot write pictures to {folder}: {error.strerror}.") from error
    return GAP_PLOT, NOISE_PLOT, COVERAGE_PLOT


def plot_budget_gap(description: DatasetDescription, file: Path) -> None:
    """Heat map of the budget gap, operator kind x budget, one device below the other.

    A cell has the geometric mean over the kind's workloads, and an exclamation mark where a choice fails.
    """
    panels = []
    for device in description.devices:
        budgets = [budget for budget in description.budgets if budget.device == device]
        gaps = {(task.workload, task.platform): task.budget_gap for task in description.tasks}
        panels.append(_panel(device, budgets, gaps, _gap_cell))
    title = "Cost of running the whole-device choice on fewer SMs\nMean budget gap in %; !: some choices fail"
    _draw_heat_maps(panels, title, "YlOrRd", file)


def plot_coverage(description: DatasetDescription, file: Path) -> None:
    """Heat map of the share of known candidates that a platform measured, with the flatness in each cell.

    A cell has the candidates of all workloads of a kind, and the median of their flatness.
    """
    panels = []
    for device in description.devices:
        budgets = [budget for budget in description.budgets if budget.device == device]
        cells = {(cell.workload, cell.platform): cell for cell in description.coverage}
        panels.append(_panel(device, budgets, cells, _coverage_cell))
    title = "Shade: known candidates that were measured, in %\nNumber: kernels within 10 % of the best, in %"
    _draw_heat_maps(panels, title, "Blues", file)


@dataclass(frozen=True)
class _Panel:
    """The heat map of one device: r kinds, c budgets.

    Attributes:
        device: Its name.
        kinds: Names of the rows.
        labels: Names of the columns.
        shades: ``(r, c)`` percentages; NaN where nothing is known.
        texts: What stands in each cell, row by row.
    """

    device: str
    kinds: list[str]
    labels: list[str]
    shades: NDArray[np.float64]
    texts: list[str]


def _panel(
    device: str,
    budgets: Sequence[Budget],
    of_task: Mapping[tuple[str, str], T],
    cell: Callable[[list[T]], tuple[float, str]],
) -> _Panel:
    """Return the heat map of a device, each cell made of what is known of its tasks.

    Of many kinds, those of a single workload are one row.
    """
    of_kind: dict[str, list[str]] = {}
    for workload in dict.fromkeys(workload for workload, _ in of_task):
        of_kind.setdefault(_kind(workload), []).append(workload)
    if len(of_kind) > _MOST_ROWS:
        alone = [kind for kind, workloads in of_kind.items() if len(workloads) == 1]
        together = [workload for kind in alone for workload in of_kind.pop(kind)]
        of_kind |= {f"{len(alone)} kinds of one workload": together} if alone else {}
    cells = [
        cell([of_task[w, budget.platform] for w in workloads if (w, budget.platform) in of_task])
        for _, workloads in sorted(of_kind.items())
        for budget in budgets
    ]
    return _Panel(
        device,
        sorted(of_kind),
        [budget.label.replace(" ", "\n") for budget in budgets],
        np.array([shade for shade, _ in cells]).reshape(len(of_kind), len(budgets)),
        [text for _, text in cells],
    )


def _kind(workload: str) -> str:
    """Operator kind and dtype, where that is not float32."""
    parsed = Workload.parse(workload)
    return f"{parsed.kind} {parsed.dtype}" if parsed.dtype not in ("", "float32") else parsed.kind


def _gap_cell(gaps: list[float]) -> tuple[float, str]:
    """Mean gap in percent; a choice that fails everywhere has the darkest shade."""
    known = np.array([gap for gap in gaps if not np.isnan(gap)])
    if not known.size:
        return np.nan, ""
    works = known[np.isfinite(known)]
    if not works.size:
        return 1e3, "fails"
    percent = 100 * float(np.expm1(np.mean(np.log1p(works))))
    return percent, f"{percent:.0f}{'!' if works.size < known.size else ''}"


def _coverage_cell(cells: list[Coverage]) -> tuple[float, str]:
    """Percentage of the known candidates that were measured; median flatness."""
    measured, known = sum(cell.measured for cell in cells), sum(cell.known for cell in cells)
    flatness = [cell.near_best_share for cell in cells if not np.isnan(cell.near_best_share)]
    share = 100 * measured / known if known and measured else np.nan
    return share, f"{100 * np.median(flatness):.2g}" if flatness else ""


def _draw_heat_maps(panels: Sequence[_Panel], title: str, colours: str, file: Path) -> None:
    """One panel below the other, so that the picture is narrow and its letters are large."""
    rows = [len(panel.kinds) for panel in panels]
    columns = max(len(panel.labels) for panel in panels)
    longest = max(len(kind) for panel in panels for kind in panel.kinds)
    title_columns = 0.19 * max(len(panel.device) for panel in panels) - 1  # as wide as a panel's title
    height = 1.1 + 0.27 * sum(rows) + 0.9 * len(panels)
    figure = _figure(1.0 + 0.085 * longest + 0.44 * max(columns, title_columns), height)
    axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=rows)[:, 0]
    for each, panel in zip(axes, panels, strict=True):
        image = each.imshow(panel.shades, cmap=colours, vmin=0, vmax=100, aspect="auto")
        each.patch.set(hatch="////", edgecolor="0.75")  # what is not known is hatched, in grey too
        for (row, column), shade in np.ndenumerate(panel.shades):
            text = panel.texts[row * len(panel.labels) + column]
            color = "white" if shade > 60 else "black"
            each.text(column, row, text, ha="center", va="center", fontsize=9, color=color)
        each.set_title(_verbatim(panel.device), fontsize=11)
        each.set_xticks(range(len(panel.labels)), list(map(_verbatim, panel.labels)), fontsize=10)
        each.set_yticks(range(len(panel.kinds)), list(map(_verbatim, panel.kinds)), fontsize=10)
        each.spines[:].set_visible(False)
        each.tick_params(length=0)
    axes[-1].set_xlabel("SMs granted", fontsize=10)
    figure.suptitle(title, fontsize=12)
    beyond = any(np.nanmax(panel.shades, initial=0) > 100 for panel in panels)
    extend = "max" if beyond else "neither"
    figure.colorbar(image, ax=list(axes), extend=extend, aspect=40, fraction=0.05, pad=0.02)
    _save(figure, file)


def _verbatim(text: str) -> str:
    """Return the text without mathematics: matplotlib reads what stands between two dollars as TeX."""
    return text.replace("$", r"\$")


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


def _figure(width: float, height: float) -> Any:
    # Figure without pyplot: no window system, and no state that a caller's own plots would share.
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _save(figure: Any, file: Path) -> None:
    """Write a picture with a palette of 256 colours: a third of the bytes. Cards are kept under git."""
    from PIL import Image

    content = BytesIO()
    figure.savefig(content, format="png", dpi=150, metadata={"Software": None})
    picture = Image.open(content).convert("RGB")
    palette = picture.quantize(256, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE)
    palette.save(file, "PNG", optimize=True)
