"""Compares what the planner says of real traces with what was measured: see README.md."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from cases import cases
from traces import Traces

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

from costmodel.errors import CostModelError
from costmodel.files import write_json
from costmodel.planner import KernelGraph, replay
from costmodel.planner.whatif._profiler import without_profiler

# Of an iteration in which the device is busy for so much of the time, the device sets the pace.
GPU_BOUND = 0.9
# A replay may be off by so much where the host sets the pace.
REPLAYED = 0.02
# A change of less is none: the same variant measured twice differs by as much.
NO_CHANGE = 0.01
# A pair can be judged where both of its variants, measured twice minutes apart, differ by no more.
REPEATS = 0.03


def main() -> None:
    args = parse()
    traces = Traces(Path(args.traces))
    replayed = replays(traces)
    predicted, refused = predictions(traces)
    tables = [summary_of_replays(replayed), summary(predicted, "what_if"), summary(predicted, "network")]
    print("\n\n".join(tables))
    print(f"\n{len(refused)} pairs were refused: {', '.join(sorted({each['what_if'] for each in refused}))}")
    if args.plot:
        from picture import draw

        draw(predicted, args.plot)
    if args.json:
        found = {
            "about": traces.about,
            "constants": traces.constants(),
            "summary": figures(replayed, predicted),
        }
        found |= {"refused": refused}
        tables = {"replays": replayed, "predictions": predicted}
        found |= {name: table.to_dict(orient="records") for name, table in tables.items()}
        write_json(args.json, found)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--traces", metavar="DIR", help="folder of measurements.json and traces.zip")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE.png")
    return parse_options(parser, __file__, argv)


def replays(traces: Traces) -> pd.DataFrame:
    """Each trace replayed without a change, beside its measured times."""
    rows = []
    for row in traces.rows:
        name = row["network"], row["variant"]
        if not traces.is_traced(*name):
            continue
        recorded = traces.graph(*name)
        timeline = replay(recorded.graph)
        found = {"network": name[0], "variant": name[1], "tasks": len(recorded.graph)}
        found |= {"replayed_s": timeline.makespan_s, "traced_s": traces.traced_s(*name)}
        found |= {"measured_s": traces.measured_s(*name), "aa": traces.aa(*name)}
        found |= {"device_busy_share": timeline.device_busy_s / timeline.makespan_s}
        rows.append(found | {"findings": dict(recorded.inspection.counts)})
    table = pd.DataFrame(rows)
    table["error_traced"] = table.replayed_s / table.traced_s - 1
    table["error"] = table.replayed_s / table.measured_s - 1
    return table


def predictions(traces: Traces) -> tuple[pd.DataFrame, list[dict[str, Any]]]:
    """What each change was predicted to take beside the variant that was measured; and what was refused."""
    rows, refused = [], []
    for case in cases(traces.networks(), traces.gap_s):
        if not traces.is_traced(case.network, case.base):
            continue
        base, target = (traces.measured_s(case.network, each) for each in (case.base, case.target))
        traced = traces.graph(case.network, case.base).graph
        graph = without_profiler(traced, base, usual_host_share=traces.host_share)
        found = {"network": case.network, "base": case.base, "target": case.target, "what_if": case.what_if}
        found |= {"base_measured_s": base, "measured_s": target, "before_s": replay(graph).makespan_s}
        found["aa"] = max(traces.aa(case.network, each) for each in (case.base, case.target))
        try:
            found["predicted_s"] = replay(changed(graph, case.transforms)).makespan_s
            found["predicted_with_profiler_s"] = replay(changed(traced, case.transforms)).makespan_s
        except CostModelError as error:
            refused.append(found | {"reason": str(error)})
        else:
            rows.append(found)
    table = pd.DataFrame(rows)
    table["error"] = table.predicted_s / table.measured_s - 1
    table["error_with_profiler"] = table.predicted_with_profiler_s / table.measured_s - 1
    table["repeats"] = table.aa <= REPEATS
    table["sign_right"] = direction(table.predicted_s / table.before_s) == direction(
        table.measured_s / table.base_measured_s
    )
    return table, refused


def direction(ratio: pd.Series) -> pd.Series:
    """-1 where a change makes it faster, 1 where slower, 0 where it does next to nothing."""
    change = ratio - 1
    return np.sign(change.where(change.abs() > NO_CHANGE, 0.0))


def changed(graph: KernelGraph, transforms: Sequence[Callable[[KernelGraph], KernelGraph]]) -> KernelGraph:
    for transform in transforms:
        graph = transform(graph)
    return graph


def figures(replayed: pd.DataFrame, predicted: pd.DataFrame) -> dict[str, dict[str, float]]:
    """What documents quote, in parts of one; errors without signs."""
    found = {pace: _replay_errors(part) for pace, part in by_pace(replayed).items()}
    for name, part in (("all", predicted), ("repeats", predicted[predicted.repeats])):
        found[name] = _errors(part) | {"with_profiler": float(part.error_with_profiler.abs().mean())}
    return found


def by_pace(table: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Replays by what sets the pace."""
    bound = table.device_busy_share > GPU_BOUND
    return {"device": table[bound], "host": table[~bound]}


def _replay_errors(part: pd.DataFrame) -> dict[str, float]:
    error = part.error_traced.abs()
    found = {"median": error.median(), "largest": error.max()}
    within = int((error <= REPLAYED).sum())
    return {"traces": len(part), "within": within} | {name: float(each) for name, each in found.items()}


def _errors(part: pd.DataFrame) -> dict[str, float]:
    error = part.error.abs()
    found = {"pairs": len(part), "mean": error.mean(), "median": error.median(), "largest": error.max()}
    return {name: float(value) for name, value in found.items()} | {"sign_right": int(part.sign_right.sum())}


def summary_of_replays(table: pd.DataFrame) -> str:
    """Median and largest error, where the device and where the host sets the pace."""
    lines = ["| pace | traces | beside the traced time: median | largest |", "| --- | ---: | ---: | ---: |"]
    for pace, part in by_pace(table).items():
        found = _replay_errors(part)
        lines.append(f"| {pace} | {len(part)} | {found['median']:.2%} | {found['largest']:.1%} |")
    return "\n".join(lines).replace("%", " %")


def summary(table: pd.DataFrame, by: str) -> str:
    """Rows of pairs that repeat, and of all: how many, errors, signs."""
    lines = [f"| {by.replace('_', '-')} | pairs that repeat | error: mean | median | largest | sign right "]
    lines[0] += "| all pairs | mean | sign right |"
    lines.append("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for name, part in [*table.groupby(by, sort=False), ("all", table)]:
        steady, every = _errors(part[part.repeats]), _errors(part)
        shown = " | ".join(f"{steady[each]:.1%}" for each in ("mean", "median", "largest"))
        shown = shown if steady["pairs"] else "- | - | -"
        signs = f"{steady['sign_right']} of {steady['pairs']:.0f}"
        others = f"{every['mean']:.1%} | {every['sign_right']} of {every['pairs']:.0f}"
        lines.append(
            f"| {name} | {steady['pairs']:.0f} | {shown} | {signs} | {every['pairs']:.0f} | {others} |"
        )
    return "\n".join(lines).replace("%", " %")


if __name__ == "__main__":
    main()
