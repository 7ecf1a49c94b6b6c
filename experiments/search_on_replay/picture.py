"""The curves of searches as a picture that can be read in grey, and on a phone."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter, StrMethodFormatter
from searches import GENETIC, NOTHING_KNOWN, RANDOM, STOCK, TPE

# Colour, line and marker, so that each is known without one of them; ours, the others, are dark and solid.
STYLES: dict[str, tuple[str, Any, str]] = {
    NOTHING_KNOWN: ("tab:blue", (0, (6, 2)), "D"),
    STOCK: ("tab:green", (0, (6, 2, 1, 2)), "^"),
    TPE: ("tab:red", (0, (3, 1.5)), "v"),
    GENETIC: ("tab:purple", (0, (1, 1)), "P"),
    RANDOM: ("tab:gray", (0, (1, 3)), "x"),
}
OURS_STYLES = (("black", "solid", "o"), ("dimgray", "solid", "s"))
LEAST = 1e-3  # shown; what is nearer to the best is as good
TICKS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5)
APART = 0.16  # labels, in powers of ten


def draw(curves: Mapping[str, Mapping[str, Any]], path: Path) -> None:
    """How far the best so far is below the best known, over the measurements made."""
    figure, axes = plt.subplots(figsize=(6.4, 6.0), layout="constrained")
    ours = iter(OURS_STYLES)
    ends: dict[str, tuple[float, str]] = {}
    for name, curve in curves.items():
        colour, line, marker = STYLES.get(name) or next(ours)
        after = curve["mean score after"]
        counts = np.array([int(count) for count in after])
        short = np.maximum(1.0 - np.array(list(after.values())), LEAST)
        width = 2.6 if colour == "black" else 1.8
        axes.plot(counts, short, color=colour, linestyle=line, marker=marker, markersize=6, linewidth=width)
        ends[name] = float(short[-1]), colour
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel("measurements", fontsize=14)
    axes.set_ylabel("1 - mean score of the best so far", fontsize=14)
    axes.tick_params(labelsize=13)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    lowest = 0.8 * min(end for end, _ in ends.values())
    axes.set_yticks([share for share in TICKS if share >= lowest])
    axes.set_ylim(lowest, 0.8)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share:.1%}".replace(".0%", "%")))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    _label(axes, ends, float(counts[-1]))
    figure.savefig(path, dpi=130)
    plt.close(figure)


def _label(axes: Axes, ends: Mapping[str, tuple[float, str]], last: float) -> None:
    """Names at the ends of their lines, moved apart where these meet."""
    lowest_first = sorted(ends, key=lambda name: ends[name][0])
    heights = np.log10([ends[name][0] for name in lowest_first])
    for i in range(1, len(heights)):
        heights[i] = max(heights[i], heights[i - 1] + APART)
    for name, height in zip(lowest_first, heights, strict=True):
        end, colour = ends[name]
        axes.annotate(
            name.replace("ours, ", "ours,\n" if len(name) > 20 else "ours, "),
            (last, end),
            (last * 1.25, 10.0**height),
            fontsize=13,
            color=colour,
            va="center",
            arrowprops={"arrowstyle": "-", "color": colour, "linewidth": 0.8, "relpos": (0, 0.5)},
            annotation_clip=False,
        )
