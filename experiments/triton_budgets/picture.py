"""What was found, in two panels. Loads matplotlib."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from report import ALL

from costmodel.evaluation._judge import WHOLE_DEVICE
from costmodel.report._figures import NotebookFigure, save_figure

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = "os^DvPX*<>"
_COLOURED = 5  # families
GOAL = 8.0  # % above the best, of 95 % of the tasks, after eight timed


def draw(gaps: Sequence[dict[str, Any]], shots: pd.DataFrame, shown: Sequence[str], path: Path) -> None:
    """What the whole GPU's choice costs on parts of it, and what few timings leave of that.

    Args:
        gaps: ``budget_gaps``.
        shots: ``EvaluationReport.shots`` on parts of a GPU.
        shown: Learners to show.
        path: PNG.
    """
    figure = NotebookFigure(figsize=(6.4, 9.2), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    _draw_gaps(upper, gaps)
    _draw_timed(lower, shots, shown)
    for axes in (upper, lower):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def _draw_gaps(axes: Any, gaps: Sequence[dict[str, Any]]) -> None:
    """A line a family, the worst in colour, and all of them in black."""
    table = pd.DataFrame([row for row in gaps if row["sms"] != ALL])
    worst = table[table["family"] != ALL].groupby("family")["median"].max().nlargest(_COLOURED)
    for family, line in table.groupby("family", sort=False):
        style: dict[str, Any] = {"color": "#bbbbbb", "linewidth": 1}
        if family in worst:
            i = worst.index.get_loc(family)
            style = {"color": _COLOURS[i], "marker": _MARKERS[i], "label": family.removeprefix("triton.")}
        elif family == ALL:
            style = {"color": "#000000", "linewidth": 2.5, "label": f"{ALL} families"}
        axes.plot(line["sms"], 100 * line["median"], **style)
    axes.set_xscale("log", base=2)
    sms = sorted(table["sms"].unique())
    axes.set_xticks(sms, [str(each) for each in sms])
    axes.minorticks_off()
    axes.set_title("The whole GPU's best config on a part of it, a line a family", fontsize=11)
    axes.set_xlabel("SMs")
    axes.set_ylabel("median % above the best there")
    axes.legend(frameon=False, fontsize=9)


def _draw_timed(axes: Any, shots: pd.DataFrame, shown: Sequence[str]) -> None:
    """95th percentile of the excess of the best timed over how many were timed."""
    for i, (way, group) in enumerate(shots[shots["learner"].isin(shown)].groupby("learner", sort=False)):
        excess = 100 * np.expm1(group["log_excess"]).groupby(group["shots"]).quantile(0.95)
        style = {"color": _COLOURS[i % len(_COLOURS)], "marker": _MARKERS[i % len(_MARKERS)]}
        label = "first of the whole GPU" if way == WHOLE_DEVICE else way
        axes.plot(excess.index, excess.to_numpy(), label=label, **style)
    axes.axhline(GOAL, color="#555555", linestyle=":", linewidth=1)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_title("Shapes not seen, parts of the GPU: the best of few timed; dotted: the goal", fontsize=11)
    axes.set_xlabel("timed configs")
    axes.set_ylabel("95th percentile of % above the best recorded")
    axes.legend(frameon=False, fontsize=9)
