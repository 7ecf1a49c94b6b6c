"""Compares what the planner says of real traces with what was measured: see README.md."""

import argparse
import json
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cases import cases

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

from costmodel.planner import KernelGraph, RecordedGraph, read_kineto, replay, without_profiler

# Each iteration that was traced is one annotation.
STEP = "iteration"
# Of an iteration in which the device is busy for so much of the time, the device sets the pace.
GPU_BOUND = 0.9
# A change of less is none: the same variant measured twice differs by as much.
NO_CHANGE = 0.01


class Traces:
    """Graphs of the traces of a folder, and what was measured beside them."""

    def __init__(self, folder: Path) -> None:
        recording = json.loads((folder / "measurements.json").read_text())
        self.about, self.rows = recording["about"], recording["rows"]
        self._archive = zipfile.ZipFile(folder / "traces.zip")
        self._measured = {(row["network"], row["variant"]): row for row in self.rows}
        self.graph = cache(self._graph)

    def measured_s(self, network: str, variant: str) -> float:
        """Seconds of an iteration without the profiler, by the clock of the host."""
        return float(np.median(self._measured[network, variant]["wall_s"]))

    def traced_s(self, network: str, variant: str) -> float:
        """Seconds of the iteration that was traced."""
        return float(self._measured[network, variant]["traced_wall_s"][""])

    @property
    def gap_s(self) -> float:
        """Seconds between kernels of a CUDA graph that do next to nothing; 0 where that was not measured."""
        name = "tiny-kernels", "graph"
        row = self._measured.get(name)
        if row is None or row["error"]:
            return 0.0
        graph = self.graph(*name).graph
        durations = graph.durations_s[graph.on_device]
        return max(float(np.median(row["event_s"])) / len(durations) - float(np.median(durations)), 0.0)

    def _graph(self, network: str, variant: str) -> RecordedGraph:
        with tempfile.TemporaryDirectory() as folder:
            path = self._archive.extract(f"{network}/{variant}.json", folder)
            return read_kineto(path, within=STEP)


def main() -> None:
    args = parse()
    traces = Traces(Path(args.traces))
    replayed, predicted = replays(traces), predictions(traces)
    print(f"{summary_of_replays(replayed)}\n\n{summary(predicted)}")
    if args.json:
        rows = {"replays": replayed, "predictions": predicted}
        found = {name: table.to_dict(orient="records") for name, table in rows.items()}
        args.json.write_text(json.dumps({"about": traces.about, **found}, indent=1) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", metavar="DIR", help="folder of measurements.json and traces.zip")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def replays(traces: Traces) -> pd.DataFrame:
    """Each trace replayed without a change, beside its measured times."""
    rows = []
    for row in traces.rows:
        if row["error"] or not row["traced_wall_s"]:
            continue
        name = row["network"], row["variant"]
        recorded = traces.graph(*name)
        timeline = replay(recorded.graph)
        found = {"network": name[0], "variant": name[1], "tasks": len(recorded.graph)}
        found |= {"replayed_s": timeline.makespan_s, "traced_s": traces.traced_s(*name)}
        found |= {"measured_s": traces.measured_s(*name), "aa": row["wall_s"][1] / row["wall_s"][0] - 1}
        found |= {"device_busy_share": timeline.device_busy_s / timeline.makespan_s}
        rows.append(found | {"findings": dict(recorded.inspection.counts)})
    table = pd.DataFrame(rows)
    table["error_traced"] = table.replayed_s / table.traced_s - 1
    table["error"] = table.replayed_s / table.measured_s - 1
    return table


def predictions(traces: Traces) -> pd.DataFrame:
    """What each change was predicted to take, beside the variant that was measured."""
    rows = []
    for case in cases(traces.rows, traces.gap_s):
        if case.network in ("tiny-kernels", "queued-kernels", "views"):
            continue
        base, target = (traces.measured_s(case.network, each) for each in (case.base, case.target))
        traced = traces.graph(case.network, case.base).graph
        graph = without_profiler(traced, base)
        found = {"network": case.network, "base": case.base, "target": case.target, "what_if": case.what_if}
        found |= {"base_measured_s": base, "measured_s": target, "before_s": replay(graph).makespan_s}
        found["predicted_s"] = replay(changed(graph, case.transforms)).makespan_s
        found["predicted_with_profiler_s"] = replay(changed(traced, case.transforms)).makespan_s
        rows.append(found)
    table = pd.DataFrame(rows)
    table["error"] = table.predicted_s / table.measured_s - 1
    table["error_with_profiler"] = table.predicted_with_profiler_s / table.measured_s - 1
    table["sign_right"] = direction(table.predicted_s / table.before_s) == direction(
        table.measured_s / table.base_measured_s
    )
    return table


def direction(ratio: pd.Series) -> pd.Series:
    """-1 where a change makes it faster, 1 where slower, 0 where it does next to nothing."""
    change = ratio - 1
    return np.sign(change.where(change.abs() > NO_CHANGE, 0.0))


def changed(graph: KernelGraph, transforms: Sequence[Any]) -> KernelGraph:
    for transform in transforms:
        graph = transform(graph)
    return graph


def summary_of_replays(table: pd.DataFrame) -> str:
    """Median and largest error, where the device and where the host sets the pace."""
    lines = ["| pace | traces | beside the traced: median, largest | beside the untraced: median, largest |"]
    lines.append("| --- | ---: | ---: | ---: |")
    bound = table.device_busy_share > GPU_BOUND
    for pace, part in (("device", table[bound]), ("host", table[~bound])):
        traced, untraced = part.error_traced.abs() * 100, part.error.abs() * 100
        lines.append(
            f"| {pace} | {len(part)} | {traced.median():.1f} %, {traced.max():.1f} % "
            f"| {untraced.median():.1f} %, {untraced.max():.1f} % |"
        )
    return "\n".join(lines)


def summary(table: pd.DataFrame) -> str:
    """A row for each change: how many, errors, signs, and errors where the profiler's time is left in."""
    lines = [
        "| what-if | pairs | error: mean | median | largest | sign right | mean, with the profiler's time |"
    ]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: |")
    for what_if, part in [*table.groupby("what_if", sort=False), ("all", table)]:
        error = part.error.abs() * 100
        errors = " | ".join(f"{each:.1f} %" for each in (error.mean(), error.median(), error.max()))
        signs = f"{part.sign_right.sum()} of {len(part)}"
        left_in = f"{part.error_with_profiler.abs().mean() * 100:.1f} %"
        lines.append(f"| {what_if} | {len(part)} | {errors} | {signs} | {left_in} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
