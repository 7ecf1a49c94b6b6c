"""What schedules of kernels on streams are worth, by the planner's own model of a GPU. See README.md."""

import argparse
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from time import process_time
from typing import Any

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from cases import drawn, kernels_of_traces, networks
from contentions import shared_alike
from options import parse_options
from references import exhaustive_s, stages_s

from costmodel.files import write_json
from costmodel.planner import KernelGraph, beside_others, on_best_streams, on_streams, replay
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.whatif._schedule import Kernels
from costmodel.planner.whatif._sharing import WAIT_S, first_come

MOST_STREAMS = 8
# Kernels of graphs drawn at random.
SIZES = {"small": (6,), "medium": (12,), "large": (24, 48, 96)}
# Networks whose blocks have few enough operators for the dynamic program.
STAGED = ("inception-a", "inception-c", "inception-e", "inception-v3", "nasnet-cell")
# A schedule that is this much slower counts as slower.
_ROUNDING = 1e-6


def main() -> None:
    arguments = parse()
    rows = []
    for name, tasks in cases(arguments):
        rows.append(row(name, graph_of(tasks, name)))
        print(f"{name}: {rows[-1]['seconds']}", file=sys.stderr)
    print(table(rows), robustness(rows), sep="\n\n")
    if arguments.json:
        write_json(arguments.json, {"rows": rows})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graphs", type=Path, help="graphs.jsonl of measure.py, gzipped or not")
    for kind, sizes in SIZES.items():
        parser.add_argument(f"--{kind}", type=int, help=f"graphs of {sizes} kernels drawn at random")
    parser.add_argument("--seed", type=int, help="of what is drawn")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def cases(arguments: argparse.Namespace) -> Iterator[tuple[str, list[JsonTask]]]:
    """Names and tasks: the networks, then graphs drawn at random."""
    yield from networks(arguments.graphs).items()
    draw, kernels = np.random.default_rng(arguments.seed), kernels_of_traces()
    for kind, sizes in SIZES.items():
        for i in range(getattr(arguments, kind)):
            yield kind, drawn(sizes[i % len(sizes)], kernels, draw)


def row(name: str, graph: KernelGraph) -> dict[str, Any]:
    """Seconds that a graph takes with each schedule, and that it took to find it."""
    kernels = Kernels.of(graph)
    ways: dict[str, Callable[[], float]] = {
        "one": lambda: replay(on_streams(graph, 1)).makespan_s,
        "nimble": lambda: replay(beside_others(on_streams(graph, MOST_STREAMS))).makespan_s,
        "ours": lambda: replay(on_best_streams(graph, most=MOST_STREAMS)).makespan_s,
    }
    if name in STAGED or name == "medium":
        ways["stages"] = lambda: stages_s(kernels)
    if name == "small":
        ways["exhaustive"] = lambda: exhaustive_s(kernels)
    makespan_s, seconds = {}, {}
    for way, found in ways.items():
        began = process_time()
        makespan_s[way] = found()
        seconds[way] = round(process_time() - began, 3)
    found = {"graph": name, "kernels": len(graph), "makespan_s": makespan_s, "seconds": seconds}
    return found | {"otherwise_s": otherwise_s(graph, makespan_s["one"])}


def otherwise_s(graph: KernelGraph, one_s: float) -> dict[str, list[float]]:
    """What one stream and our schedule take if kernels behave otherwise than it took for granted."""
    schedule = on_best_streams(graph, most=MOST_STREAMS)
    alone = dict(zip(_scopes(graph), graph.durations_s.tolist(), strict=True))
    placed = schedule.assuming(durations_s=np.array([alone[scope] for scope in _scopes(schedule)]))
    several = placed.is_stream.sum() > 1
    found = {
        "waits of 1.3 us": beside_others(placed, wait_s=3 * WAIT_S),
        "SMs shared out alike": beside_others(placed, contention=shared_alike),
        "1.5 times as long beside others": beside_others(placed, contention=partial(first_come, beside=1.5)),
    }
    return {name: [one_s, replay(each).makespan_s if several else one_s] for name, each in found.items()}


def _scopes(graph: KernelGraph) -> list[str]:
    return [graph.scopes[scope] for scope in graph.scope_ids.tolist()]


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: microseconds of each schedule, means of graphs of a kind, and our part of what was gained."""
    lines = [
        "| graph | kernels | one stream, us | Nimble | stages (IOS) | all schedules | ours | "
        "our gain over the reference's: mean | worst | seconds: ours | reference |",
        "| --- |" + " ---: |" * 10,
    ]
    for name, of in _grouped(rows).items():
        cells = [f"{fmean(each['kernels'] for each in of):.0f}"]
        for way in ("one", "nimble", "stages", "exhaustive", "ours"):
            known = [each["makespan_s"][way] for each in of if way in each["makespan_s"]]
            cells.append(f"{1e6 * fmean(known):.1f}" if known else "-")
        shares = [share for each in of if (share := gain_share(each)) is not None]
        cells += [f"{fmean(shares):.3f}", f"{min(shares):.3f}"] if shares else ["-", "-"]
        cells.append(f"{max(each['seconds']['ours'] for each in of):.1f}")
        longest = [each["seconds"].get("stages", each["seconds"].get("exhaustive")) for each in of]
        cells.append(f"{max(longest):.1f}" if None not in longest else "-")
        number = f"{len(of)} {name}" if len(of) > 1 else name
        lines.append(f"| {number} | {' | '.join(cells)} |")
    return "\n".join(lines)


def gain_share(row: dict[str, Any]) -> float | None:
    """What our schedule saves over what the reference saves: 1 if that is nothing, None without one."""
    makespan_s = row["makespan_s"]
    reference = makespan_s.get("stages", makespan_s.get("exhaustive"))
    if reference is None:
        return None
    saved = makespan_s["one"] - reference
    return (makespan_s["one"] - makespan_s["ours"]) / saved if saved > _ROUNDING * makespan_s["one"] else 1.0


def robustness(rows: Sequence[dict[str, Any]]) -> str:
    """Markdown: graphs in which our schedule is slower than one stream, if kernels behave otherwise."""
    found: dict[str, list[float]] = defaultdict(list)
    for each in rows:
        pairs = {"as assumed": [each["makespan_s"]["one"], each["makespan_s"]["ours"]]} | each["otherwise_s"]
        for name, (one, ours) in pairs.items():
            found[name].append(ours / one)
    lines = ["| if | graphs | not slower than one stream | worst | median |", "| --- |" + " ---: |" * 4]
    for name, ratios in found.items():
        fine = sum(ratio <= 1 + _ROUNDING for ratio in ratios)
        share = f"{100 * fine / len(ratios):.1f} %"
        lines.append(
            f"| {name} | {len(ratios)} | {share} | {max(ratios):.3f} | {float(np.median(ratios)):.3f} |"
        )
    return "\n".join(lines)


def _grouped(rows: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for each in rows:
        found[each["graph"]].append(each)
    return found


if __name__ == "__main__":
    main()
