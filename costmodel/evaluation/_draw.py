"""Pictures of a report: readable in grey, on a phone, and with a colour-vision deficiency."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from costmodel.errors import CostModelError
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from costmodel.evaluation._report import EvaluationReport
    from costmodel.report._figures import NotebookFigure


# Okabe and Ito's palette, which readers with colour-vision deficiencies can tell apart; references are grey.
# In grey, markers and dashes tell lines apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)))
_REFERENCES = {RANDOM: ":", WHOLE_DEVICE: "--"}
# Two panels, one above the other: a phone shows 6.4 inches as 390 points, where 11 points stay readable.
TWO_PANELS = (6.4, 9.2)


def line_style(name: str, learners: list[str]) -> dict[str, Any]:
    """Return the style of a learner's line, by its place among the learners; references have their own."""
    if name in _REFERENCES:
        return {"color": "#555555", "linestyle": _REFERENCES[name], "linewidth": 1.6}
    place = learners.index(name)
    return {
        "color": COLOURS[place % len(COLOURS)],
        "marker": _MARKERS[place % len(_MARKERS)],
        "linestyle": _DASHES[place % len(_DASHES)],
        "markersize": 5.5,
        "linewidth": 1.6,
    }


def frame(axes: "Axes", title: str, xlabel: str, ylabel: str) -> None:
    """Title, labels, a faint grid, and no box."""
    axes.set_title(title, fontsize=12)
    axes.set_xlabel(xlabel, fontsize=11)
    axes.set_ylabel(ylabel, fontsize=10)
    axes.tick_params(labelsize=10)
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def budget_axis(axes: "Axes", budgets: list[int]) -> None:
    """SM budgets on a logarithmic axis; where they are many, only some have a label."""
    axes.set_xscale("log", base=2)
    every = -(-len(budgets) // 9)
    axes.set_xticks(budgets, [str(sms) if i % every == 0 else "" for i, sms in enumerate(budgets)])
    axes.minorticks_off()


def legend_below(figure: "Figure", axes: "Axes") -> None:
    """The lines of one panel for all of them, in three columns at most."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        loc="outside lower center",
        ncols=min(3, len(labels)),
        frameon=False,
        fontsize=10,
        handlelength=3.5,
    )


def plot_by_shots(report: "EvaluationReport") -> "NotebookFigure":
    """The score of the best measured, and of one more from the list, over measurements, one line a learner.

    Bands are 95 % intervals. The first point of the lower panel is without measurements.

    Raises:
        CostModelError: Nothing was measured.
    """
    from costmodel.report._figures import NotebookFigure

    if report.few_shot is None:
        raise CostModelError("A picture over measurements needs shots, but nothing was measured (--shots).")
    figure = NotebookFigure(figsize=TWO_PANELS, layout="constrained")
    upper, lower = figure.subplots(2, 1)
    table = report.by_shots()
    learners = [name for name in report.learners if name not in (RANDOM, WHOLE_DEVICE)]
    for name, lines in table.groupby("learner", sort=False):
        style = line_style(str(name), learners)
        known = lines[lines["shots"] > 0]
        upper.plot(known["shots"], known["score_after"], label=name, **style)
        lower.plot(lines["shots"], lines["score_at_1"], label=name, **style)
        if name in learners:
            ends = lines["score_at_1_low"], lines["score_at_1_high"]
            lower.fill_between(lines["shots"], *ends, color=style["color"], alpha=0.12, linewidth=0)
    _shots_axis(upper, [n for n in report.few_shot.shots if n > 0], "Best of the configs measured")
    _shots_axis(lower, report.few_shot.shots, "And one more of the list")
    figure.suptitle(
        f"Measurements of a new task, {report.few_shot.first} first\n({report.split})", fontsize=13
    )
    legend_below(figure, lower)
    return figure


def _shots_axis(axes: "Axes", shots: Sequence[int], title: str) -> None:
    frame(axes, title, "measurements of the task", "best latency / chosen latency, mean over tasks")
    # Linear up to 1 where there is a 0, so that no measurement at all has a place.
    scale: dict[str, Any] = {"value": "symlog", "linthresh": 1} if 0 in shots else {"value": "log"}
    axes.set_xscale(base=2, **scale)
    axes.set_xticks(shots, [str(number) for number in shots])
    axes.minorticks_off()


_SPEED = "best latency / chosen latency"


def plot_report(report: "EvaluationReport", by: str | None) -> "NotebookFigure":
    """The picture of a report, see ``EvaluationReport.plot``.

    Raises:
        CostModelError: There is nothing for it.
    """
    draw = {"budget": plot_by_budget, "shots": plot_by_shots, "learner": plot_by_learner}
    default = "budget" if report.partial_budgets else "shots" if report.few_shot else "learner"
    if by not in (None, *draw):
        raise CostModelError(f"A report can be drawn by {', '.join(draw)}, but got {by!r}.")
    return draw[by or default](report)


def plot_by_budget(report: "EvaluationReport") -> "NotebookFigure":
    """Score@1 and the gap recovered by SM budget, one line a learner.

    The gap recovered is drawn from -1 up; a line that leaves the frame below is worse than that.

    Raises:
        CostModelError: No task has a part of a device.
    """
    from costmodel.report._figures import NotebookFigure

    if not report.partial_budgets:
        raise CostModelError("A picture by SM budget needs tasks on a part of a device, but there are none.")
    figure = NotebookFigure(figsize=TWO_PANELS, layout="constrained")
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


def plot_by_learner(report: "EvaluationReport") -> "NotebookFigure":
    """Mean Score@1 of each learner with its 95 % interval, the best at the top."""
    from costmodel.report._figures import NotebookFigure

    table = report.summary().sort_values("score_at_1")
    figure = NotebookFigure(figsize=(6.4, 1.6 + 0.34 * len(table)), layout="constrained")
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
    from costmodel.report._figures import NotebookFigure, save_figure

    figure = NotebookFigure(figsize=(6.4, 4.6), layout="constrained")
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
