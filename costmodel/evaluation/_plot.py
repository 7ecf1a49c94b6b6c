"""A picture of a report."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE
from costmodel.evaluation._report import Report

if TYPE_CHECKING:
    import pandas as pd

# Okabe and Ito's palette, which readers with colour-vision deficiencies can tell apart; references are grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_REFERENCE_STYLES = {RANDOM: ":", WHOLE_DEVICE: "--"}


def plot_report(report: Report, path: Path) -> None:
    """Draw Score@1 and the gap recovered by SM budget, one line a learner, as PNG.

    The gap recovered is drawn from -1 up; a line that leaves the frame below is worse than that.

    Args:
        report: What to draw.
        path: File to write.

    Raises:
        CostModelError: No task has a part of a device.
    """
    if not report.partial_budgets:
        raise CostModelError("A picture by SM budget needs tasks on a part of a device, but there are none.")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    table = report.by_budget()
    _lines(left, table, "score_at_1", report.learners)
    partial = table[table["sms_granted"].isin(report.partial_budgets)]
    _lines(right, partial, "gap_recovered", [name for name in report.learners if name != WHOLE_DEVICE])
    _frame(left, table, "Speed of the first choice", "best latency / chosen latency, mean over tasks")
    _frame(
        right, partial, "Budget gap recovered by the first choice", "share of log(whole-device choice / best)"
    )
    left.set_ylim(max(0.0, table["score_at_1"].min() - 0.05), 1.01)
    right.set_ylim(-1.0, 1.03)
    right.axhline(0.0, color="#555555", linestyle=_REFERENCE_STYLES[WHOLE_DEVICE], linewidth=1.4)
    figure.suptitle(f"Kernels chosen without measuring them ({report.split})", fontsize=12)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    save(figure, path)


def plot_held_out(tasks: "pd.DataFrame", path: Path) -> None:
    """Draw Score@1 of each task that was held out, and the mean, by SM budget, as PNG.

    Args:
        tasks: As of ``Trained.held_out_tasks``; one row or more.
        path: File to write.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(tasks["sms_granted"], tasks["score_at_1"], "o", color="#999999", alpha=0.4, label="each task")
    mean = tasks.groupby("sms_granted")["score_at_1"].mean()
    axes.plot(mean.index, mean, "-o", color=_COLOURS[0], linewidth=2.2, label="mean")
    _frame(axes, tasks, "Speed of the first choice on what was held out", "best latency / chosen latency")
    axes.set_ylim(0.0, 1.03)
    axes.legend(frameon=False)
    save(figure, path)


def save(figure: Any, path: Path) -> None:
    """Write a figure as PNG, and the folder that it lies in."""
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


def line_style(name: str, learners: list[str]) -> dict[str, Any]:
    """How a learner's line looks, by its place among the learners; references have their own."""
    if name in _REFERENCE_STYLES:
        style = _REFERENCE_STYLES[name]
        return {"color": "#555555", "linestyle": style, "marker": ".", "markersize": 4, "linewidth": 1.4}
    place = learners.index(name)
    # When colours run out, they come again in dashes.
    style = "-" if place < len(_COLOURS) else "-."
    colour = _COLOURS[place % len(_COLOURS)]
    return {"color": colour, "linestyle": style, "marker": "o", "markersize": 4, "linewidth": 1.8}


def _lines(axes: Any, table: "pd.DataFrame", metric: str, names: list[str]) -> None:
    learners = [name for name in table["learner"].unique() if name not in _REFERENCE_STYLES]
    for name in names:
        line = table[table["learner"] == name].dropna(subset=metric)
        axes.plot(line["sms_granted"], line[metric], label=name, **line_style(name, learners))


def _frame(axes: Any, table: "pd.DataFrame", title: str, ylabel: str) -> None:
    budgets = sorted(table["sms_granted"].unique())
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(sms) for sms in budgets], fontsize=9 if len(budgets) < 10 else 7)
    axes.minorticks_off()
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("SMs granted")
    axes.set_ylabel(ylabel)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
