"""Judges plans of several ranks by recorded steps: see README.md."""

import argparse
import json
import sys
import tempfile
import zipfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from costmodel.files import write_json
from costmodel.planner import plan
from costmodel.planner._plan import Plan
from costmodel.planner.graphs._kernel_graph import KernelGraph, TaskKind

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Recorded:
    """A variant on some ranks.

    Attributes:
        plan: Of all of its traces.
        traced_s: What the traced step took the slowest rank.
        step_s: What a step takes without a profiler: median over steps of the slowest rank's.
        aa: How far the same, timed once more, is off; not a number where it was not.
        folder: Of the traces.
    """

    plan: Plan
    traced_s: float
    step_s: float
    aa: float
    folder: Path


def main() -> None:
    args = parse()
    with tempfile.TemporaryDirectory() as folder:
        recorded = dict(read(ROOT / args.data, Path(folder)))
        rows = [
            row
            for (world, network), variants in recorded.items()
            for row in (*replays(variants), *what_ifs(variants))
            if row.update(world=world, network=network) is None
        ]
    write_json(args.json, {"rows": rows})
    print(table(rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", metavar="DIR", help="folder of measurements.json and traces.zip")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def read(data: Path, folder: Path) -> Iterator[tuple[tuple[int, str], dict[str, Recorded]]]:
    """Variants of each network on each number of ranks."""
    with zipfile.ZipFile(data / "traces.zip") as archive:
        archive.extractall(folder)
    steps: dict[tuple[int, str, str], list[dict[str, Any]]] = defaultdict(list)
    for row in json.loads((data / "measurements.json").read_text())["rows"]:
        steps[row["world"], row["network"], row["name"]].append(row)
    found: dict[tuple[int, str], dict[str, Recorded]] = defaultdict(dict)
    for (world, network, name), rows in steps.items():
        place = folder / str(world) / network / name
        step_s, again_s = (slowest_s(rows, times) for times in ("step_s", "again_s"))
        traced_s = max(row["traced_step_s"] for row in rows)
        whole = plan(place, within="iteration")
        found[world, network][name] = Recorded(whole, traced_s, step_s, again_s / step_s - 1, place)
    yield from found.items()


def slowest_s(rows: list[dict[str, Any]], times: str) -> float:
    """Median over steps of what the slowest rank took; not a number where nothing was timed."""
    steps = list(zip(*(row.get(times, ()) for row in rows), strict=True))
    return median(max(each) for each in steps) if steps else float("nan")


def replays(variants: dict[str, Recorded]) -> Iterator[dict[str, Any]]:
    """What the merged graph takes unchanged, and what of it is exposed, beside each trace for itself."""
    for name, recorded in variants.items():
        ranks = recorded.plan.ranks
        own_s = [exposed_in_trace_s(file) for file in sorted(recorded.folder.glob("*.json"))]
        yield {
            "what": "replay",
            "variant": name,
            "predicted_s": recorded.plan.before.makespan_s,
            "true_s": recorded.traced_s,
            "exposed_s": ranks["exposed_s"].tolist(),
            "exposed_in_trace_s": own_s,
            "waited_s": ranks["waited_s"].tolist(),
            "aa": None if np.isnan(recorded.aa) else recorded.aa,
        }


def exposed_in_trace_s(file: Path) -> float:
    """Seconds in which a rank's GPU runs collectives alone, from its trace, apart from the planner."""
    events = json.loads(file.read_text())["traceEvents"]
    (window,) = (
        each for each in events if each.get("name") == "iteration" and each["cat"] == "user_annotation"
    )
    begin, end = window["ts"], window["ts"] + window["dur"]
    kinds = ("kernel", "gpu_memcpy", "gpu_memset")
    spans = [each for each in events if each.get("cat") in kinds and begin <= each["ts"] <= end]
    moving = [each for each in spans if "nccl" in each["name"].lower()]
    rest = [each for each in spans if "nccl" not in each["name"].lower()]
    return 1e-6 * (covered(spans) - covered(rest)) if moving else 0.0


def covered(spans: list[dict[str, Any]]) -> float:
    """Microseconds that spans cover together."""
    total = until = 0.0
    for start, end in sorted((each["ts"], each["ts"] + each["dur"]) for each in spans):
        total += max(end - max(start, until), 0.0)
        until = max(until, end)
    return total


def what_ifs(variants: dict[str, Recorded]) -> Iterator[dict[str, Any]]:
    """Changes whose outcome was recorded, from the plain variant or to it; wall times, by the traced ones."""
    plain = variants["plain"]

    def row(what: str, before: Recorded, predicted_s: float, after: Recorded) -> dict[str, Any]:
        traced = {"predicted_s": predicted_s, "true_s": after.traced_s, "before_s": before.traced_s}
        return {"what": what, "variant": after.folder.name, **traced}

    if "late" in variants:
        yield row("no rank is late", variants["late"], without_late_layer_s(variants["late"]), plain)
    if "half" in variants:  # of weights and gradients too, so that collectives move half the bytes
        halved = plan(plain.folder, "half:weights,scale:nccl=0.5", within="iteration")
        yield row("half", plain, halved.after.makespan_s, variants["half"])
        without = plan(
            plain.folder, "half:weights,scale:nccl=0.5", within="iteration", measured_s=plain.step_s
        )
        yield {
            "what": "half, without the profiler",
            "variant": "half",
            "predicted_s": without.after.makespan_s,
            "true_s": variants["half"].step_s,
            "before_s": plain.step_s,
        }
    if "sms112" in variants:
        fewer = plan(plain.folder, "sms=112", within="iteration")
        yield row("112 SMs for all but collectives", plain, fewer.after.makespan_s, variants["sms112"])
    for name, channels in (("channels", 2), ("channels8", 8), ("channels16", 16)):
        if name in variants:
            factor = moving_s(variants[name]) / moving_s(plain)
            slower = plan(plain.folder, f"scale:nccl={factor},channels={channels}", within="iteration")
            yield row(f"links {factor:.2f}x as slow", plain, slower.after.makespan_s, variants[name])


def moving_s(recorded: Recorded) -> float:
    return float(recorded.plan.ranks["collective_s"].mean())


def without_late_layer_s(recorded: Recorded) -> float:
    """The step if the late rank did not have its further layer: its first kernels take nothing."""

    def without(graph: KernelGraph) -> KernelGraph:
        kernels = [kernels_of(graph, rank) for rank in (0, 1)]
        more = len(kernels[1]) - len(kernels[0])
        durations_s = graph.durations_s.copy()
        durations_s[kernels[1][:more]] = 0.0
        return graph.assuming(durations_s=durations_s)

    return plan(recorded.folder, [without], within="iteration").after.makespan_s


def kernels_of(graph: KernelGraph, rank: int) -> np.ndarray:
    of_rank = np.array([each.rank == rank for each in graph.resources])[graph.resource_ids]
    return np.flatnonzero(of_rank & graph.of_kind(TaskKind.KERNEL))


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| ranks | network | what | variant | predicted ms | true ms | error % |", "|" + " --- |" * 7]
    for row in rows:
        error = 100 * (row["predicted_s"] / row["true_s"] - 1)
        shown = (row["world"], row["network"], row["what"], row["variant"])
        lines.append(
            f"| {' | '.join(map(str, shown))} | {1e3 * row['predicted_s']:.3f} | {1e3 * row['true_s']:.3f} "
            f"| {error:+.1f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
