"""The calls behind ``costmodel plan``: a graph before and after what-if transforms, or on other devices."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.planner._held_sms import replay_with_held_sms, without_held_sms
from costmodel.planner._latencies import Latencies, open_latencies
from costmodel.planner._operators import operator_table
from costmodel.planner._rank import Ranking, rank
from costmodel.planner._ranks import rank_table, read_ranks
from costmodel.planner._replay import CriticalPath, Timeline, critical_path, replay
from costmodel.planner._timeline_files import save_perfetto
from costmodel.planner.graphs._exported import LibraryLatencies, find_exported, read_exported
from costmodel.planner.graphs._json_graph import is_module_place, read_graph, read_relax
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind
from costmodel.planner.graphs._recorded_graph import Inspection, RecordedGraph
from costmodel.planner.graphs._trace import read_kineto
from costmodel.planner.whatif._parse import Transform, parse_what_if
from costmodel.planner.whatif._profiler import without_profiler
from costmodel.planner.whatif._scale import OnDevice, recorded_device
from costmodel.products._model import meant_gpu
from costmodel.reading import detect, is_folder
from costmodel.records._device_table import find_device
from costmodel.records._hypothetical import Sweep, sweep_devices
from costmodel.records._platform import Device
from costmodel.transfer.prediction._sweep import plot_swept

if TYPE_CHECKING:
    from costmodel.report._figures import NotebookFigure


# How quantities of a summary are shown: label, factor, format.
SHOWN = {
    "makespan_s": ("makespan, us", 1e6, "{:,.1f}"),
    "device_busy_s": ("device busy, us", 1e6, "{:,.1f}"),
    "device_busy_share": ("device busy, %", 100, "{:.1f}"),
    "kernels": ("kernels", 1, "{:,.0f}"),
    "launches": ("launches", 1, "{:,.0f}"),
    "streams": ("streams", 1, "{:,.0f}"),
    "critical_path_kernels_share": ("critical path: kernels and copies, %", 100, "{:.1f}"),
    "critical_path_host_share": ("critical path: host, %", 100, "{:.1f}"),
    "critical_path_gaps_share": ("critical path: gaps, %", 100, "{:.1f}"),
}


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
    def operators(self) -> pd.DataFrame:
        """Time and rates by operator after the transforms, see ``operator_table``."""
        return operator_table(self.after.graph)

    @cached_property
    def ranks(self) -> pd.DataFrame:
        """Compute, collectives and waits of each rank after the transforms, see ``rank_table``."""
        return rank_table(self.after)

    @cached_property
    def critical_path(self) -> CriticalPath:
        """Critical path of the graph after the transforms."""
        return critical_path(self.after)

    def verdict(self) -> list[str]:
        """Say in a few sentences how long it takes, what sets the pace, and what takes most of it."""
        from costmodel.planner._plan_page import plan_verdict

        return plan_verdict(self)

    def summary(self) -> pd.DataFrame:
        """Return the quantities as rows, with columns ``before`` and ``after``; times are in seconds."""
        return pd.DataFrame({"before": _quantities(self.before), "after": _quantities(self.after)})

    def shown(self) -> list[tuple[str, ...]]:
        """Return the summary as texts: what each row is, then its values before and, if changed, after."""
        values = self.summary()
        columns = ["before", "after"] if self.is_changed else ["before"]
        return [
            (label, *(form.format(values[column][name] * factor) for column in columns))
            for name, (label, factor, form) in SHOWN.items()
        ]

    def rank(self, latencies: Latencies) -> Ranking:
        """Rank what to tune next in the graph after the transforms.

        Args:
            latencies: Recorded or predicted latencies.
        """
        return rank(self.after.graph, latencies)

    def plot(self) -> "NotebookFigure":
        """Plot lanes over time, before and after, with the critical path marked."""
        from costmodel.planner._timeline_files import plot_timelines

        if not self.is_changed:
            return plot_timelines({"replayed": self.before})
        return plot_timelines({"before": self.before, "after": self.after})

    def save_perfetto(self, path: Path | str) -> None:
        """Write the timeline after the transforms as Chrome's JSON, for https://ui.perfetto.dev."""
        save_perfetto(self.after, Path(path))

    def save_report(self, path: Path | str) -> None:
        """Write the report as a single self-contained HTML file."""
        from costmodel.planner._plan_page import plan_page

        write_whole(Path(path), plan_page(self).encode())

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
            "operators": self.operators.to_dict(orient="records"),
            "ranks": self.ranks.to_dict(orient="records"),
        }


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
        model: A trace of PyTorch's profiler, a folder with a trace of each rank, your own JSON graph, a
            program of ``torch.export`` (``model.py:program``), a Relax module (``program.py:module``, or JSON
            of ``tvm.ir.save_json``), or a graph.
        what_if: Transforms in order, as functions or as text such as ``fuse,graphs,scale:matmul=0.5``.
        within: Annotation of the part of a trace to use, such as ``ProfilerStep*``. Default: the whole trace.
        measured_s: Measured time without the profiler, in seconds. If given, the profiler's overhead is
            removed.
        sms: Number of SMs of the kernels of a program or module. Default: the whole device.
        latencies: Latencies of workloads' kernels, for Relax modules and the what-ifs ``sms``, ``tuned`` and
            ``unfuse``. Default for a Relax module: ``open_latencies()``; for a program of ``torch.export``
            those of PyTorch's calls on an H200.

    Raises:
        CostModelError: If the file cannot be read, has no such annotation, or a transform does not apply.
    """
    if latencies is None and isinstance(model, Path | str) and is_module_place(str(model)):
        latencies = LibraryLatencies() if find_exported(str(model)) else open_latencies()
    recorded, name = read_any(model, within, sms, latencies)
    graph = recorded.graph if measured_s is None else without_profiler(recorded.graph, measured_s)
    before = after = replay(graph)
    transforms = parse_what_if(what_if, latencies) if isinstance(what_if, str) else what_if
    ends_s = None
    if transforms:
        alone = without_held_sms(before)
        changed = _transformed(alone, transforms)
        after = before if changed is alone else replay_with_held_sms(changed)
        ends_s = _ends_s(alone, transforms)
    return Plan(name, recorded.inspection, recorded.makespan_s, before, after, ends_s)


def _transformed(graph: KernelGraph, transforms: Sequence[Transform]) -> KernelGraph:
    return reduce(lambda changed, transform: transform(changed), transforms, graph)


def _ends_s(graph: KernelGraph, transforms: Sequence[Transform]) -> tuple[float, float] | None:
    """Least and most makespan, as the ends of those transforms say that have some."""
    ends = [each.ends if isinstance(each, OnDevice) else (each, each) for each in transforms]
    if all(fastest is slowest for fastest, slowest in ends):
        return None
    changed = (_transformed(graph, end) for end in zip(*ends, strict=True))
    least, most = (replay_with_held_sms(each).makespan_s for each in changed)
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


def read_any(
    model: Path | str | RecordedGraph | KernelGraph,
    within: str = "",
    sms: int | None = None,
    latencies: Latencies | None = None,
) -> tuple[RecordedGraph, str]:
    """Read a graph of any kind: of a Relax module, a trace or a JSON of one's own; with what it is called.

    Args:
        model: The graph or its file.
        within: Annotation whose part of a trace is wanted; all of it if empty.
        sms: SMs that the kernels of a Relax module have; the whole device unless given.
        latencies: What the kernels of a Relax module take.

    Raises:
        CostModelError: The file cannot be read, has no such annotation, or is no module but SMs are given.
    """
    if isinstance(model, Path | str) and is_module_place(str(model)):
        if program := find_exported(str(model)):
            return read_exported(program, latencies.device if latencies else None, sms), Path(model).name
        return read_relax(str(model), latencies, sms=sms), Path(model).name
    if sms is not None:
        raise CostModelError(
            "SMs can be chosen only for the kernels of a Relax module, but a recorded graph has those that "
            f"it ran on. Use the what-if sms={sms}."
        )
    if isinstance(model, Path | str):
        return _read_file(Path(model), within), Path(model).name
    return (RecordedGraph.unrecorded(model) if isinstance(model, KernelGraph) else model), "graph"


def _read_file(path: Path, within: str) -> RecordedGraph:
    """A trace or a graph of one's own, by its first key; of a folder, the traces of its ranks."""
    if is_folder(path):
        return read_ranks(path, within)
    if path.suffix == ".py":
        raise CostModelError(
            "A Relax module, or a program of torch.export, must be named with its file, as in "
            f"{path}:module, but got {path}."
        )
    found = detect(path)
    own = found is not None and found.key == "kernel-graph"
    return read_graph(path) if own else read_kineto(path, within)


@dataclass(frozen=True)
class SweptPlan:
    """A model on hypothetical devices.

    Attributes:
        plan: The model before and after the transforms, on the device that it was recorded on.
        device: The device that it was recorded on.
        names: Names of the swept quantities.
        table: One row per device: the quantities, ``latency_s`` (the makespan), ``low_s`` and ``high_s`` (its
            bounds), and ``speedup`` over the recorded model.
        assumptions: Assumptions made on the last of the devices.
    """

    plan: Plan
    device: Device
    names: tuple[str, ...]
    table: pd.DataFrame
    assumptions: tuple[str, ...]

    def plot(self) -> "NotebookFigure":
        """Plot latency with its band over the first quantity, with one line per value of the second."""
        return plot_swept(self.table, self.names, f"{self.plan.name} on {self.device.name}, changed")

    def to_dict(self) -> dict[str, Any]:
        """Return the data that the command writes as JSON."""
        return {
            "name": self.plan.name,
            "device": self.device.name,
            "recorded_s": self.plan.before.makespan_s,
            "devices": self.table.to_dict(orient="records"),
            "assumptions": list(self.assumptions),
        }


def sweep_plan(  # noqa: PLR0913 (settings, most with defaults)
    model: "Path | str | RecordedGraph | KernelGraph",
    device: Device | str,
    sweeps: Sequence[Sweep | str],
    what_if: str | Sequence[Transform] = (),
    *,
    within: str = "",
    measured_s: float | None = None,
    sms: int | None = None,
    latencies: Latencies | None = None,
) -> SweptPlan:
    """Predict the time of a model if its device had other quantities.

    Args:
        model: A trace of PyTorch's profiler, your own JSON graph, or a graph.
        device: Device that the model was recorded on, or its name; empty: what the trace says.
        sweeps: Quantities to sweep, such as ``sms=64:256:16``: one or two.
        what_if: Transforms to apply first, as for ``plan``.
        within: See ``plan``.
        measured_s: See ``plan``.
        sms: See ``plan``.
        latencies: See ``plan``.

    Raises:
        CostModelError: If ``plan`` raises it, or a sweep is invalid, see ``Sweep`` and ``sweep_devices``.
    """
    first = parse_what_if(what_if, latencies) if isinstance(what_if, str) else list(what_if)
    chosen = [Sweep.parse(each) if isinstance(each, str) else each for each in sweeps]
    base = plan(model, first, within=within, measured_s=measured_s, sms=sms, latencies=latencies)
    start = base.before.graph
    named = find_device(meant_gpu(device)) if isinstance(device, str) and device else device
    recorded = named if isinstance(named, Device) else recorded_device(start)
    changes, made = zip(*sweep_devices(recorded, chosen), strict=True)
    found = [plan(start, [*first, OnDevice(recorded, each)]) for each in made]
    rows = [
        {**change, "latency_s": each.after.makespan_s, **_ends(each), "speedup": each.speedup}
        for change, each in zip(changes, found, strict=True)
    ]
    return SweptPlan(
        base, recorded, tuple(each.name for each in chosen), pd.DataFrame(rows), found[-1].assumptions
    )


def _ends(found: Plan) -> dict[str, float]:
    low, high = found.ends_s or (found.after.makespan_s, found.after.makespan_s)
    return {"low_s": low, "high_s": high}
