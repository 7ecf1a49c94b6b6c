"""Latency over a quantity of hypothetical hardware, as a picture."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

    from costmodel.report._figures import Picture

# Lines that can be told apart.
_MOST_LINES = 10


def draw_swept(table: "pd.DataFrame", names: Sequence[str], title: str) -> "Picture":
    """Latency with its band over the first quantity, a line for each value of the second.

    Args:
        table: Columns ``names``, ``latency_s``, and ``low_s`` and ``high_s`` where they are known.
        names: One or two quantities.
        title: Of the picture.
    """
    from costmodel.report._figures import Picture

    figure = Picture(figsize=(7.5, 4.5), layout="constrained")
    axis = figure.subplots()
    lines = table[names[1]].unique().tolist() if len(names) > 1 else [0.0]
    for value in lines[:: -(-len(lines) // _MOST_LINES)]:
        rows = table[table[names[1]] == value] if len(names) > 1 else table
        label = f"{names[-1]} {value:g}"
        (line,) = axis.plot(rows[names[0]], rows["latency_s"] * 1e6, marker=".", label=label)
        if "low_s" in rows:
            low, high = rows["low_s"] * 1e6, rows["high_s"] * 1e6
            axis.fill_between(rows[names[0]], low, high, color=line.get_color(), alpha=0.15, linewidth=0)
    axis.set_xlabel(names[0])
    axis.set_ylabel("latency, us")
    axis.set_ylim(bottom=0)
    axis.set_title(title, loc="left", fontsize=10)
    axis.spines[["top", "right"]].set_visible(False)
    if len(names) > 1:
        axis.legend(frameon=False, fontsize=8)
    return figure
