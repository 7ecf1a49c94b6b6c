"""Pictures of a report: by SM budget, by number of measurements, by learner."""

from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from costmodel.errors import CostModelError
from costmodel.evaluation.judging._judge import RANDOM, WHOLE_DEVICE
from costmodel.evaluation.pictures._shots import draw_by_shots
from costmodel.evaluation.pictures._style import (
    COLOURS,
    TWO_PANELS,
    budget_axis,
    frame,
    legend_below,
    line_style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from costmodel.evaluation._report import EvaluationReport
    from costmodel.report._figures import Picture

_SPEED = "best latency / chosen latency"


def draw_report(report: "EvaluationReport", by: str | None) -> "Picture":
    """The picture of a report, see ``EvaluationReport.plot``.

    Raises:
        CostModelError: There is nothing for it.
    """
    draw = {"budget": draw_by_budget, "shots": draw_by_shots, "learner": draw_by_learner}
    default = "budget" if report.partial_budgets else "shots" if report.few_shot else "learner"
    if by not in (None, *draw):
        raise CostModelError(f"A report can be drawn by {', '.join(draw)}, but got {by!r}.")
    return draw[by or default](report)


def draw_by_budget(report: "EvaluationReport") -> "Picture":
    """Score@1 and the gap recovered by SM budget, one line a learner.

    The gap recovered is drawn from -1 up; a line that leaves the frame below is worse than that.

    Raises:
        CostModelError: No task has a part of a device.
    """
    from costmodel.report._figures import Picture

    if not report.partial_budgets:
        raise CostModelError("A picture by SM budget needs tasks on a part of a device, but there are none.")
    figure = Picture(figsize=TWO_PANELS, layout="constrained")
    upper, lower = figure.subplots(2, 1)
    table = report.by_budget()
    partial = table[table["sms_granted"].isin(report.partial_budgets)]
    _lines(upper, table, "score_at_1", report.learners)
    _lines(lower, partial, "gap_recovered", [name for name in report.learners if name != WHOLE_DEVICE])
    frame(upper, "Speed of the first choice", "SMs granted", f"{_SPEED}, mean over tasks")
    frame(
        lower,
        "Budget gap recovered by the first choice",
        "SMs granted",
        "share of log(whole-device choice / best)",
    )
    budget_axis(upper, sorted(table["sms_granted"].unique()))
    budget_axis(lower, report.partial_budgets)
    upper.set_ylim(max(0.0, table["score_at_1"].min() - 0.05), 1.01)
    lower.set_ylim(-1.0, 1.03)
    lower.axhline(0.0, **line_style(WHOLE_DEVICE, []))
    figure.suptitle(f"Kernels chosen without measuring them\n({report.split})", fontsize=13)
    legend_below(figure, upper)
    return figure


def draw_by_learner(report: "EvaluationReport") -> "Picture":
    """Mean Score@1 of each learner with its 95 % interval, the best at the top."""
    from costmodel.report._figures import Picture

    table = report.summary().sort_values("score_at_1")
    figure = Picture(figsize=(6.4, 1.6 + 0.34 * len(table)), layout="constrained")
    axes = figure.subplots()
    colours = ["#999999" if name in (RANDOM, WHOLE_DEVICE) else COLOURS[0] for name in table.index]
    means = table["score_at_1"]
    ends = [means - table["score_at_1_low"], table["score_at_1_high"] - means]
    axes.barh(table.index, means, color=colours, xerr=ends, ecolor="#000000", capsize=2.5)
    frame(axes, f"Speed of the first choice\n({report.split})", f"{_SPEED}, mean over tasks", "")
    axes.set_xlim(0.0, 1.0)
    return figure


def plot_held_out(tasks: pd.DataFrame, path: Path) -> None:
    """Draw Score@1 of each task that was held out, and the mean, by SM budget, as PNG.

    Args:
        tasks: As of ``EvaluationReport.tasks``; one row or more.
        path: File to write.
    """
    from costmodel.report._figures import Picture, save_figure

    figure = Picture(figsize=(6.4, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(tasks["sms_granted"], tasks["score_at_1"], "o", color="#999999", alpha=0.4, label="each task")
    mean = tasks.groupby("sms_granted")["score_at_1"].mean()
    axes.plot(mean.index, mean, "-s", color=COLOURS[0], linewidth=2.2, label="mean")
    frame(axes, "Speed of the first choice on what was held out", "SMs granted", _SPEED)
    budget_axis(axes, sorted(tasks["sms_granted"].unique()))
    axes.set_ylim(0.0, 1.03)
    axes.legend(frameon=False)
    save_figure(figure, path)


def _lines(axes: "Axes", table: pd.DataFrame, metric: str, names: list[str]) -> None:
    learners = [name for name in table["learner"].unique() if name not in (RANDOM, WHOLE_DEVICE)]
    for name in names:
        line = table[table["learner"] == name].dropna(subset=metric)
        axes.plot(line["sms_granted"], line[metric], label=name, **line_style(name, learners))
