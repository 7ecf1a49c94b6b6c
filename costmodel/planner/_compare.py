"""Two recordings of the same work compared: what takes more or less time, and why."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from costmodel.planner._operators import kernel_rows, operators_or_kinds
from costmodel.planner._plan import read_any
from costmodel.planner._replay import Timeline, replay

if TYPE_CHECKING:
    from costmodel.planner.graphs._kernel_graph import KernelGraph
    from costmodel.planner.graphs._recorded_graph import RecordedGraph
    from costmodel.report._figures import NotebookFigure

# Why the time of kernels changes.
CAUSES = {
    "calls": "kernels that are called more or less often, or in one recording only",
    "shape": "the same operator on other shapes or types",
    "kernel": "another kernel for the same work",
    "grid": "the same kernel with another grid, or on another number of SMs",
    "speed": "the same kernel with the same grid: clocks, memory, or what runs beside it",
}
_FINEST = ("group", "workload", "kernel", "blocks", "sms")
_LEVELS = (("speed", 5), ("grid", 3), ("kernel", 2), ("shape", 1))


@dataclass(frozen=True)
class ComparedRecordings:
    """Two recordings of the same work.

    Attributes:
        names: What the two are called.
        before: Replay of the first.
        after: Replay of the second.
    """

    names: tuple[str, str]
    before: Timeline
    after: Timeline

    @cached_property
    def table(self) -> pd.DataFrame:
        """Changes by operator, the largest first, in seconds of kernels, copies and memsets.

        Columns: ``group`` (the operator; what a kernel does where one of the recordings does not tell
        operators), ``kernels_before``, ``kernels_after``, ``before_s``, ``after_s``, ``change_s``, and the
        parts of the change by cause, which add up to it: ``calls_s``, ``shape_s``, ``kernel_s``, ``grid_s``
        and ``speed_s`` (see ``CAUSES``).
        """
        items = self._items()
        change_s = {cause: pd.Series(dtype=float) for cause in CAUSES}
        rest = items
        for cause, depth in _LEVELS:
            alike = rest.groupby(list(_FINEST[:depth]), sort=False)[list(_COUNTED)].sum()
            both = alike[(alike["calls_before"] > 0) & (alike["calls_after"] > 0)]
            # What the calls of one description would take after, if each took what one took before.
            expected_s = both["before_s"] * both["calls_after"] / both["calls_before"]
            change_s["calls"] = _added(change_s["calls"], expected_s - both["before_s"])
            change_s[cause] = _added(change_s[cause], both["after_s"] - expected_s)
            rest = rest[~pd.MultiIndex.from_frame(rest[list(_FINEST[:depth])]).isin(_as_multi(both.index))]
        alone_s = rest.set_index("group")["after_s"] - rest.set_index("group")["before_s"]
        change_s["calls"] = _added(change_s["calls"], alone_s)
        sums = items.groupby("group", sort=False)[list(_COUNTED)].sum()
        effects = {f"{cause}_s": of.reindex(sums.index, fill_value=0.0) for cause, of in change_s.items()}
        table = pd.DataFrame(
            {
                "kernels_before": sums["calls_before"].astype(int),
                "kernels_after": sums["calls_after"].astype(int),
                "before_s": sums["before_s"],
                "after_s": sums["after_s"],
                "change_s": sums["after_s"] - sums["before_s"],
                **effects,
            }
        )
        order = table["change_s"].abs().sort_values(ascending=False, kind="stable").index
        return table.loc[order].reset_index()

    @cached_property
    def causes(self) -> dict[str, float]:
        """Change of the makespan by cause, in seconds; the parts add up to it.

        Those of ``CAUSES`` are of the time of kernels, ``overlap`` is what more of it at once saves
        (negative) or less costs, and ``idle`` the time in which nothing runs on a device.
        """
        parts = {cause: float(self.table[f"{cause}_s"].sum()) for cause in CAUSES}
        busy = self.after.device_busy_s - self.before.device_busy_s
        makespan = self.after.makespan_s - self.before.makespan_s
        return {**parts, "overlap": busy - sum(parts.values()), "idle": makespan - busy}

    @property
    def speedup(self) -> float:
        """Makespan before divided by makespan after."""
        return self.before.makespan_s / self.after.makespan_s if self.after.makespan_s else 1.0

    def verdict(self) -> str:
        """Say in one or two sentences which takes longer, and what makes the most of the difference."""
        before, after = self.before.makespan_s, self.after.makespan_s
        change = after - before
        first = (
            f"{self.names[1]} takes {1e6 * after:,.1f} us, {self.names[0]} {1e6 * before:,.1f} us: "
            f"{self.speedup:.2f}x as fast."
        )
        largest = max(self.causes, key=lambda cause: self.causes[cause] * np.sign(change))
        of_it = self.causes[largest]
        if change == 0 or of_it * change <= 0:
            return first
        what = {**CAUSES, **_BESIDE}[largest]
        return f"{first} Most of the difference is {what}: {1e6 * of_it:+,.1f} us."

    def plot(self) -> "NotebookFigure":
        """Plot the change of the makespan by cause, as a waterfall."""
        return plot_waterfall(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the data that the command writes as JSON."""
        return {
            "names": list(self.names),
            "makespan_s": [self.before.makespan_s, self.after.makespan_s],
            "speedup": self.speedup,
            "causes_s": self.causes,
            "operators": self.table.to_dict(orient="records"),
        }

    def _items(self) -> pd.DataFrame:
        """Rows by all that is known of a kernel, with calls and seconds in both."""
        sides = [kernel_rows(each.graph) for each in (self.before, self.after)]
        for told in ("operator", "workload"):
            if not all(_tells(rows[told], rows["seconds"]) for rows in sides):
                sides = [rows.assign(**{told: ""}) for rows in sides]
        counted = [_counted(rows, side) for rows, side in zip(sides, ("before", "after"), strict=True)]
        return pd.concat(counted, axis=1).fillna(0.0).reset_index()


_COUNTED = ("calls_before", "calls_after", "before_s", "after_s")
_BESIDE = {
    "overlap": "that more or less of the kernels run at once",
    "idle": "time in which nothing runs on a device",
}
# Both recordings must tell operators, or workloads, of so much of the time of kernels for these to be
# compared: CUDA graphs tell no operators, and traces without shapes no workloads.
_ENOUGH = 0.3


def _tells(names: pd.Series, seconds: pd.Series) -> bool:
    return bool(seconds[names != ""].sum() >= _ENOUGH * seconds.sum())


def _counted(rows: pd.DataFrame, side: str) -> pd.DataFrame:
    grouped = rows.assign(group=operators_or_kinds(rows)).groupby(list(_FINEST), sort=False)["seconds"]
    return pd.DataFrame({f"calls_{side}": grouped.size().astype(float), f"{side}_s": grouped.sum()})


def _added(found: pd.Series, more: pd.Series) -> pd.Series:
    """Seconds by group, with those of more descriptions, whose first part is the group."""
    of_group = more.groupby(level=0, sort=False).sum()
    return found.add(of_group, fill_value=0.0)


def _as_multi(index: pd.Index) -> pd.MultiIndex:
    return index if isinstance(index, pd.MultiIndex) else pd.MultiIndex.from_arrays([index])


def plot_waterfall(comparison: ComparedRecordings) -> "NotebookFigure":
    """Plot the makespan before, what each cause adds or saves, and the makespan after."""
    from costmodel.report._figures import NotebookFigure

    figure = NotebookFigure(figsize=(7.0, 3.6), layout="constrained")
    axes = figure.subplots()
    causes = {name: seconds for name, seconds in comparison.causes.items() if seconds}
    steps = 1e3 * np.array([comparison.before.makespan_s, *causes.values()])
    bottoms = np.concatenate([[0.0], np.cumsum(steps)[:-1]])
    labels = ["before", *causes, "after"]
    heights = [*steps, 1e3 * comparison.after.makespan_s]
    colours = ["0.4", *("tab:red" if step > 0 else "tab:green" for step in steps[1:]), "0.4"]
    bars = axes.bar(labels, heights, bottom=[*bottoms, 0.0], color=colours)
    axes.bar_label(bars, [_signed(labels, i, height) for i, height in enumerate(heights)], fontsize=8)
    axes.set_ylabel("ms")
    axes.set_title(f"{comparison.names[0]} to {comparison.names[1]}", fontsize=10)
    axes.set_ylim(0, 1.12 * max(*(bottoms + np.maximum(steps, 0.0)), heights[-1]))
    return figure


def _signed(labels: Sequence[str], place: int, height: float) -> str:
    return f"{height:.3g}" if place in (0, len(labels) - 1) else f"{height:+.3g}"


def compare_recordings(
    before: "Path | str | RecordedGraph | KernelGraph",
    after: "Path | str | RecordedGraph | KernelGraph",
    *,
    within: str = "",
) -> ComparedRecordings:
    """Compare two recordings of the same work, such as a step of a model before and after a change.

    The time of kernels is added up by operator, and its change split by cause: kernels are compared at the
    finest description (operator, workload, kernel, grid) that both recordings have. Of the kernels of one
    description, the change of their number, times what one took before, is that of calls, and the rest that
    of the cause. What only one recording has at a level goes to the next coarser one.

    Args:
        before: A trace of PyTorch's profiler, your own JSON graph, or a graph.
        after: The other.
        within: Annotation of the part of both traces to use, such as ``ProfilerStep*``. Default: all.

    Raises:
        CostModelError: If a file cannot be read, or has no such annotation.
    """
    found = [read_any(each, within) for each in (before, after)]
    first, second = (name for _, name in found)
    names = (first, second) if first != second else (f"before ({first})", f"after ({second})")
    replays = [replay(recorded.graph) for recorded, _ in found]
    return ComparedRecordings(names, replays[0], replays[1])
