"""The call behind ``costmodel plan``: a graph before and after what-if transforms."""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from costmodel.files import write_whole
from costmodel.planner.graphs._base import KernelGraph, TaskKind
from costmodel.planner.graphs._inspection import Inspection
from costmodel.planner.graphs._recorded import RecordedGraph
from costmodel.planner.graphs._relax import is_module_place
from costmodel.planner.latencies._base import Latencies
from costmodel.planner.latencies._open import open_latencies
from costmodel.planner.ranking._rank import Ranking, rank
from costmodel.planner.replaying._base import Timeline
from costmodel.planner.replaying._critical_path import CriticalPath, critical_path
from costmodel.planner.replaying._replay import replay
from costmodel.planner.report._perfetto import save_perfetto
from costmodel.planner.report._read import read_any
from costmodel.planner.whatif._device import OnDevice
from costmodel.planner.whatif._parse import Transform, parse_what_if
from costmodel.planner.whatif._profiler import without_profiler
from costmodel.web_page import web_page

if TYPE_CHECKING:
    from costmodel.figures import Picture


@dataclass(frozen=True)
class Plan:
    """A graph before and after what-if transforms.

    Attributes:
        name: Name of the file.
        inspection: What was wrong with the file.
        recorded_s: Recorded makespan, in seconds; NaN if the file has no times.
        before: Replay of the graph as it is.
        after: Replay of the transformed graph; equal to ``before`` without a transform.
        ends_s: Lowest and highest makespan after the transforms, in seconds, if one of the transforms gives
            bounds: each kernel is limited by what makes it take the least, or the most. Otherwise None.
    """

    name: str
    inspection: Inspection
    recorded_s: float
    before: Timeline
    after: Timeline
    ends_s: tuple[float, float] | None = None

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What the transforms assumed, in order."""
        return self.after.graph.assumptions

    @property
    def is_changed(self) -> bool:
        """Whether a transform was applied."""
        return self.after is not self.before

    @property
    def speedup(self) -> float:
        """Makespan before divided by makespan after."""
        return self.before.makespan_s / self.after.makespan_s if self.after.makespan_s else 1.0

    @cached_property
    def critical_path(self) -> CriticalPath:
        """Critical path of the graph after the transforms."""
        return critical_path(self.after)

    def summary(self) -> pd.DataFrame:
        """Return the quantities as rows, with columns ``before`` and ``after``; times are in seconds."""
        return pd.DataFrame({"before": _quantities(self.before), "after": _quantities(self.after)})

    def rank(self, latencies: Latencies) -> Ranking:
        """Rank what to tune next in the graph after the transforms.

        Args:
            latencies: Recorded or predicted latencies.
        """
        return rank(self.after.graph, latencies)

    def plot(self) -> "Picture":
        """Plot lanes over time, before and after, with the critical path marked."""
        from costmodel.planner.report._picture import draw_timelines

        return draw_timelines({"before": self.before} | ({"after": self.after} if self.is_changed else {}))

    def save_perfetto(self, path: Path | str) -> None:
        """Write the timeline after the transforms as Chrome's JSON, for https://ui.perfetto.dev."""
        save_perfetto(self.after, Path(path))

    def save_report(self, path: Path | str) -> None:
        """Write the report as a single self-contained HTML file."""
        write_whole(Path(path), self._page().encode())

    def to_dict(self) -> dict[str, Any]:
        """Return the data that the command writes as JSON."""
        return {
            "name": self.name,
            "events": self.inspection.events,
            "findings": self.inspection.counts,
            "unknown": list(self.inspection.unknown),
            "recorded_s": self.recorded_s,
            "before": _quantities(self.before),
            "after": _quantities(self.after),
            "speedup": self.speedup,
            "ends_s": self.ends_s,
            "assumptions": list(self.assumptions),
            "critical_path": self.critical_path.by_name().to_dict(orient="records"),
        }

    def _page(self) -> str:
        picture = BytesIO()
        self.plot().savefig(picture, format="png", dpi=110)
        found = b64encode(picture.getvalue()).decode()
        parts = [
            f"<h1>{escape(self.name)}</h1>",
            self.summary().to_html(float_format="{:,.6g}".format),
            _list("Assumed", self.assumptions),
            _list("Found in the file", self.inspection.sentences()),
            f'<figure><img alt="Lanes over time" src="data:image/png;base64,{found}"></figure>',
            "<h2>Critical path</h2>",
            self.critical_path.by_name().head(40).to_html(index=False, float_format="{:,.6g}".format),
        ]
        return web_page(f"Plan of {self.name}", "\n".join(parts))


def plan(  # noqa: PLR0913 (settings, all but the first with defaults)
    model: "Path | str | RecordedGraph | KernelGraph",
    what_if: str | Sequence[Transform] = (),
    *,
    within: str = "",
    measured_s: float | None = None,
    sms: int | None = None,
    latencies: Latencies | None = None,
) -> Plan:
    """Predict the time of a model as it was recorded, and with what-if transforms.

    Args:
        model: A trace of PyTorch's profiler, your own JSON graph, a Relax module (``program.py:module``, or
            JSON of ``tvm.ir.save_json``), or a graph.
        what_if: Transforms in order, as functions or as text such as ``fuse,graphs,scale:matmul=0.5``.
        within: Annotation of the part of a trace to use, such as ``ProfilerStep*``. Default: the whole trace.
        measured_s: Measured time without the profiler, in seconds. If given, the profiler's overhead is
            removed.
        sms: Number of SMs of the kernels of a Relax module. Default: the whole device.
        latencies: Latencies of workloads' kernels, for Relax modules and the what-ifs ``sms``, ``tuned`` and
            ``unfuse``. Default for a Relax module: ``open_latencies()``.

    Raises:
        CostModelError: If the file cannot be read, has no such annotation, or a transform does not apply.
    """
    if latencies is None and isinstance(model, Path | str) and is_module_place(str(model)):
        latencies = open_latencies()
    recorded, name = read_any(model, within, sms, latencies)
    graph = recorded.graph if measured_s is None else without_profiler(recorded.graph, measured_s)
    before = after = replay(graph)
    transforms = parse_what_if(what_if, latencies) if isinstance(what_if, str) else what_if
    changed = _transformed(graph, transforms)
    if changed is not graph:
        after = replay(changed)
    return Plan(name, recorded.inspection, recorded.makespan_s, before, after, _ends_s(graph, transforms))


def _transformed(graph: KernelGraph, transforms: Sequence[Transform]) -> KernelGraph:
    return reduce(lambda changed, transform: transform(changed), transforms, graph)


def _ends_s(graph: KernelGraph, transforms: Sequence[Transform]) -> tuple[float, float] | None:
    """Least and most makespan, as the ends of those transforms say that have some."""
    ends = [each.ends if isinstance(each, OnDevice) else (each, each) for each in transforms]
    if all(fastest is slowest for fastest, slowest in ends):
        return None
    least, most = (replay(_transformed(graph, end)).makespan_s for end in zip(*ends, strict=True))
    return least, most


def _quantities(timeline: Timeline) -> dict[str, float]:
    graph = timeline.graph
    path = critical_path(timeline)
    of_kernels = graph.on_device[path.tasks]
    makespan = timeline.makespan_s or 1.0
    return {
        "makespan_s": timeline.makespan_s,
        "device_busy_s": timeline.device_busy_s,
        "device_busy_share": timeline.device_busy_s / makespan,
        "kernels": int(graph.of_kind(TaskKind.KERNEL).sum()),
        "launches": timeline.launches,
        "streams": int(graph.is_stream.sum()),
        "critical_path_kernels_share": float(path.spent_s[of_kernels].sum()) / makespan,
        "critical_path_host_share": float(path.spent_s[~of_kernels].sum()) / makespan,
        "critical_path_gaps_share": float(path.waited_s.sum()) / makespan,
    }


def _list(title: str, sentences: Sequence[str]) -> str:
    items = "\n".join(f"<li>{escape(each)}</li>" for each in sentences)
    return f"<h2>{title}</h2>\n<ul>\n{items}\n</ul>" if sentences else ""
