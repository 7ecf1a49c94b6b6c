"""How the pictures of a report look: readable in grey, on a phone, and with a colour-vision deficiency."""

from typing import TYPE_CHECKING, Any

from costmodel.evaluation.judging._judge import RANDOM, WHOLE_DEVICE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's palette, which readers with colour-vision deficiencies can tell apart; references are grey.
# In grey, markers and dashes tell lines apart.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*", "<", ">")
_DASHES = ("-", (0, (5, 2)), (0, (1, 1.2)))
_REFERENCES = {RANDOM: ":", WHOLE_DEVICE: "--"}
# Two panels, one above the other: a phone shows 6.4 inches as 390 points, where 11 points stay readable.
TWO_PANELS = (6.4, 9.2)


def line_style(name: str, learners: list[str]) -> dict[str, Any]:
    """How a learner's line looks, by its place among the learners; references have their own."""
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
