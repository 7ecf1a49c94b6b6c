"""The picture of errors."""

from pathlib import Path

import pandas as pd
from errors import COREGIONALISED, ONE


def draw(errors: pd.DataFrame, path: Path) -> None:
    """A point a family: error of coregionalised processes over one process a task, by rows known."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.2), layout="constrained")
    axes = figure.subplots()
    cases = list(errors["rows"].unique())
    for offset, (kind, marker) in enumerate({"recorded": "o", "analytic": "s", "unrelated": "x"}.items()):
        of = errors[errors["kind"] == kind]
        table = of.pivot_table(index=["rows", "family"], columns="method", values="error", sort=False)
        ratios = table[COREGIONALISED] / table[ONE]
        places = [cases.index(rows) + 0.2 * (offset - 1) for rows in ratios.index.get_level_values("rows")]
        axes.scatter(places, ratios, marker=marker, label=kind, alpha=0.8)
    across = axes.get_yaxis_transform()
    for level, label in ((0.5, "goal, related tasks"), (1.1, "goal, unrelated tasks")):
        axes.axhline(level, color="grey", linewidth=0.8, linestyle="--")
        axes.text(0.99, level, label, ha="right", va="bottom", fontsize=8, color="grey", transform=across)
    axes.set_xticks(range(len(cases)), cases)
    axes.set_xlabel("measurements of each task")
    axes.set_ylabel("error, coregionalised over one process a task")
    axes.set_ylim(bottom=0.0)
    axes.legend(loc="lower left", fontsize=8)
    figure.savefig(path, dpi=120)
