"""A picture of how good choices become as a task is measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.errors import CostModelError
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE
from costmodel.evaluation._plot import line_style, save
from costmodel.evaluation._report import Report


def plot_shots(report: Report, path: Path) -> None:
    """Draw the score of the best measured, and of one more from the list, over measurements, as PNG.

    One line a learner; bands are 95 % intervals. The first point of the right panel is without measurements.

    Args:
        report: What to draw.
        path: File to write.

    Raises:
        CostModelError: Nothing was measured.
    """
    if report.few_shot is None:
        raise CostModelError("A picture over measurements needs shots, but nothing was measured (--shots).")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    table = report.by_shots()
    learners = [name for name in report.learners if name not in (RANDOM, WHOLE_DEVICE)]
    for name, lines in table.groupby("learner", sort=False):
        style = line_style(str(name), learners)
        known = lines[lines["shots"] > 0]
        left.plot(known["shots"], known["score_after"], label=name, **style)
        right.plot(lines["shots"], lines["score_at_1"], label=name, **style)
        if name in learners:
            ends = lines["score_at_1_low"], lines["score_at_1_high"]
            right.fill_between(lines["shots"], *ends, color=style["color"], alpha=0.12, linewidth=0)
    _frame(left, [n for n in report.few_shot.shots if n > 0], "Best of the configs measured")
    _frame(right, report.few_shot.shots, "And one more of the list")
    figure.suptitle(
        f"Measurements of a new task, {report.few_shot.first} first ({report.split})", fontsize=12
    )
    handles, labels = right.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    save(figure, path)


def _frame(axes: Any, shots: Sequence[int], title: str) -> None:
    # Linear up to 1 where there is a 0, so that no measurement at all has a place.
    scale: dict[str, Any] = {"value": "symlog", "linthresh": 1} if 0 in shots else {"value": "log"}
    axes.set_xscale(base=2, **scale)
    axes.set_xticks(shots, [str(number) for number in shots])
    axes.minorticks_off()
    axes.set_title(title, fontsize=11)
    axes.set_xlabel("measurements of the task")
    axes.set_ylabel("best latency / chosen latency, mean over tasks")
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)
