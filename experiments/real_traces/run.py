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

from costmodel.planner import KernelGraph, RecordedGraph, read_kineto, replay

# Each iteration that was traced is one annotation.
STEP = "iteration"
# Of an iteration in which the device is busy for so much of the time, the device sets the pace.
GPU_BOUND = 0.9


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
    for case in cases(traces.rows):
        if case.network in ("tiny-kernels", "queued-kernels", "views"):
            continue
        graph = traces.graph(case.network, case.base).graph
        before, after = replay(graph).makespan_s, replay(changed(graph, case.transforms)).makespan_s
        base, target = (traces.measured_s(case.network, each) for each in (case.base, case.target))
        found = {"network": case.network, "base": case.base, "target": case.target, "what_if": case.what_if}
        found |= {"before_s": before, "predicted_s": after, "base_measured_s": base, "measured_s": target}
        rows.append(found)
    table = pd.DataFrame(rows)
    table["error"] = table.predicted_s / table.measured_s - 1
    table["sign_right"] = (table.predicted_s < table.before_s) == (table.measured_s < table.base_measured_s)
    return table


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
    """A row for each change: how many, errors, signs."""
    lines = ["| what-if | pairs | error: mean | median | largest | sign right |"]
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: |")
    for what_if, part in [*table.groupby("what_if", sort=False), ("all", table)]:
        error = part.error.abs() * 100
        errors = " | ".join(f"{each:.1f} %" for each in (error.mean(), error.median(), error.max()))
        lines.append(f"| {what_if} | {len(part)} | {errors} | {part.sign_right.sum()} of {len(part)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
