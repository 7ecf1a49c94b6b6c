"""Predicted against measured times."""

from pathlib import Path

import pandas as pd

from costmodel.report._figures import NotebookFigure, save_figure

_COLOURS = {
    "CUDA graphs": "#4c9f8f",
    "half precision": "#c0392b",
    "fewer SMs": "#2c6fbb",
    "fused": "#e0a030",
    "several": "#8c8c8c",
}


def draw(table: pd.DataFrame, path: Path) -> None:
    """A point for each pair, hollow where its measurements do not repeat, with lines at 8 %."""
    figure = NotebookFigure(figsize=(6.6, 5.6), layout="constrained")
    axis = figure.subplots()
    ends = [0.8 * table.measured_s.min() * 1e3, 1.25 * table.measured_s.max() * 1e3]
    axis.plot(ends, ends, color="black", linewidth=0.8)
    for factor in (1.08, 1 / 1.08):
        axis.plot(ends, [each * factor for each in ends], color="black", linewidth=0.6, linestyle=":")
    groups = table.what_if.map(_group)
    for name, colour in _COLOURS.items():
        for repeats in (True, False):
            part = table[(groups == name) & (table.repeats == repeats)]
            style = {"color": colour} if repeats else {"facecolors": "none", "edgecolors": colour}
            label = name if repeats else None
            axis.scatter(part.measured_s * 1e3, part.predicted_s * 1e3, s=20, label=label, alpha=0.8, **style)
    axis.set(xscale="log", yscale="log", xlim=ends, ylim=ends)
    axis.set(xlabel="measured, ms", ylabel="predicted from the trace of another variant, ms")
    axis.legend(frameon=False, loc="upper left", title="hollow: a median repeats by over 3 %")
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path)


def _group(what_if: str) -> str:
    if " + " in what_if:
        return "several"
    if "SMs" in what_if:
        return "fewer SMs"
    return "fused" if what_if.startswith("fused") else what_if
