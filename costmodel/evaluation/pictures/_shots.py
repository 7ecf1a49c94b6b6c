"""A picture of how good choices become as a task is measured."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError
from costmodel.evaluation.judging._judge import RANDOM, WHOLE_DEVICE
from costmodel.evaluation.pictures._style import TWO_PANELS, frame, legend_below, line_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from costmodel.evaluation._report import EvaluationReport
    from costmodel.report._figures import Picture


def draw_by_shots(report: "EvaluationReport") -> "Picture":
    """The score of the best measured, and of one more from the list, over measurements, one line a learner.

    Bands are 95 % intervals. The first point of the lower panel is without measurements.

    Raises:
        CostModelError: Nothing was measured.
    """
    from costmodel.report._figures import Picture

    if report.few_shot is None:
        raise CostModelError("A picture over measurements needs shots, but nothing was measured (--shots).")
    figure = Picture(figsize=TWO_PANELS, layout="constrained")
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
