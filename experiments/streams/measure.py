"""Runs networks with branches on one stream, on Nimble's and on ours, as CUDA graphs: see README.md.

On a machine with a GPU and PyTorch; or on a CPU, in turn and with made-up launches, as a rehearsal.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import torch
from facts import pairs, recorded_tasks, waits_s
from networks import NETWORKS
from runs import Placement, Program, Streams, captured, interleaved_s

from costmodel.planner import KernelGraph, beside_others, on_best_streams, on_streams, replay
from costmodel.planner.graphs import JsonTask, graph_of

MOST_STREAMS = 8
# Nodes of a network, from its longest to its shortest, that are run side by side in pairs.
_PAIRED_NODES = 8
# What of the time is for measuring, once kernels are recorded.
_SHARE_OF_TIMES = 0.5
# The longest that the kernels of one network may take to record.
_PATIENCE_S = 30


def main() -> None:
    args = parse()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "A GPU that PyTorch can use is needed, but there is none: --device cpu is a rehearsal."
        )
    args.out.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + args.time_limit
    cases = [
        {"network": name, "dtype": dtype}
        for dtype in ("float16", "float32")
        for name in args.only or NETWORKS
    ]
    tasks = list(recorded(cases, args, end - _SHARE_OF_TIMES * args.time_limit))
    with torch.no_grad():
        streams = Streams(args.device, MOST_STREAMS)
        waits = waits_s(streams)
        write(args.out / "about.jsonl", about(args.device) | {"waits_s": waits})
        rows = []
        for case, found in zip(cases, tasks, strict=True):
            row = case | attempt(
                lambda found=found, case=case: measured(case, found, streams, waits["2"], args), end
            )
            rows.append(row)
            write(args.out / "rows.jsonl", row)
    write(args.out / "about.jsonl", {"seconds": args.time_limit - (end - time.monotonic())})
    print(f"waits, us: { {name: round(each * 1e6, 2) for name, each in waits.items()} }")
    print(table(rows))


def recorded(cases: Sequence[dict[str, str]], args: argparse.Namespace, end: float) -> Iterator[Any]:
    """Tasks of each case, or why there are none, of a process that is gone when the last one is there."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        for case in cases:
            half = case["dtype"] == "float16" and args.device == "cuda"
            found = attempt(
                lambda case=case, half=half: {
                    "tasks": pool.submit(
                        recorded_tasks, case["network"], args.device, args.out, half=half
                    ).result(_PATIENCE_S)
                },
                end,
            )
            write(args.out / "graphs.jsonl", case | msgspec.to_builtins(found))
            yield found


def attempt(call: Callable[[], dict[str, Any]], end: float) -> dict[str, Any]:
    """What a call gives, or an ``error``, if there is time left at all."""
    try:
        return call() if time.monotonic() < end else {"error": "no time was left"}
    except Exception as error:  # noqa: BLE001 (the others go on)
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0][:300]}


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--time-limit", type=float, default=90.0, metavar="SECONDS")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda", help="cpu: a rehearsal")
    parser.add_argument("--rounds", type=int, default=40, help="how often each way is timed")
    parser.add_argument("--only", nargs="+", metavar="NETWORK", choices=list(NETWORKS))
    return parser.parse_args(argv)


def about(device: str) -> dict[str, Any]:
    """What is measured on, with which versions."""
    found: dict[str, Any] = {"device": "cpu", "python": platform.python_version(), "torch": torch.__version__}
    if device == "cuda":
        properties = torch.cuda.get_device_properties(0)
        found |= {"device": properties.name, "sms": properties.multi_processor_count}
        found |= {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    return found


def measured(
    case: dict[str, str], found: dict[str, Any], streams: Streams, wait_s: float, args: argparse.Namespace
) -> dict[str, Any]:
    """Predicted and measured seconds of each way to run a network, and of pairs of its kernels."""
    if "error" in found:
        raise RuntimeError(found["error"])
    tasks: list[JsonTask] = found["tasks"]
    graph = graph_of(tasks, case["network"])
    placed, chosen_in_s = {}, {}
    for way, assign in {
        "one": lambda graph: graph,
        "nimble": lambda graph: beside_others(on_streams(graph, MOST_STREAMS), wait_s=wait_s),
        "ours": lambda graph: on_best_streams(graph, most=MOST_STREAMS, wait_s=wait_s),
    }.items():
        began = time.perf_counter()
        placed[way] = assign(graph)
        chosen_in_s[way] = time.perf_counter() - began
    half = case["dtype"] == "float16" and streams.is_cuda
    program = Program.of(case["network"], args.device, half=half)
    program.warm_up(streams)
    placements = {way: placement(program, each) for way, each in placed.items()}
    ways = {"module": captured(lambda: program.module(program.x), streams)}
    for way, each in [*placements.items(), ("one again", placements["one"])]:
        ways[way] = captured(lambda each=each: program.run(each, streams), streams)
    row = {
        "predicted_s": {way: replay(each).makespan_s for way, each in placed.items()},
        "streams": {way: int(each.is_stream.sum()) for way, each in placed.items()},
        "chosen_in_s": chosen_in_s,
        "placements": {way: asdict(each) for way, each in placements.items() if way != "one"},
        "measured_s": interleaved_s(ways, args.rounds, streams),
        "same": {way: same(program, ways["one"].values, ways[way].values) for way in placements},
    }
    if streams.is_cuda:
        longest = sorted(tasks, key=lambda task: -task.duration_s)
        row |= attempt_pairs(program, [task.id for task in longest], streams)
    return row


def attempt_pairs(program: Program, nodes: Sequence[str], streams: Streams) -> dict[str, Any]:
    """What some of the nodes take beside each other; nothing else is lost if that fails."""
    found = attempt(
        lambda: {"pairs": pairs(program, spread(nodes, _PAIRED_NODES), streams)}, time.monotonic() + 1
    )
    return {"pairs_error": found["error"]} if "error" in found else found


def placement(program: Program, graph: KernelGraph) -> Placement:
    """Nodes on the streams of a graph, in the order of their starts; those without kernels follow others."""
    starts = replay(graph).starts_s
    streams = [i for i, resource in enumerate(graph.resources) if resource.is_stream]
    stream_of = {
        graph.scopes[graph.scope_ids[task]]: streams.index(graph.resource_ids[task])
        for task in range(len(graph))
    }
    rank = {graph.scopes[graph.scope_ids[task]]: (starts[task], task) for task in range(len(graph))}
    for name, needs in program.needs.items():
        if name not in rank:
            last = max(needs, key=lambda each: rank[each], default=None)
            rank[name] = (*rank[last], 1) if last else (0.0, -1)
            stream_of[name] = stream_of[last] if last else 0
    return Placement(sorted(program.nodes, key=lambda name: rank[name]), stream_of)


def spread(names: Sequence[str], most: int) -> list[str]:
    """So many names at equal distances."""
    return list(names[:: max(len(names) // most, 1)][:most])


def same(program: Program, expected: Any, found: Any) -> bool:
    """Whether two runs gave the same result, but for rounding."""
    first, second = (program.result(values).float() for values in (expected, found))
    return bool(torch.allclose(first, second, rtol=1e-2, atol=1e-2 * float(first.abs().max())))


def write(path: Path, row: dict[str, Any]) -> None:
    """Append a line of JSON."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")


def table(rows: Sequence[dict[str, Any]]) -> str:
    """A line for each network: microseconds measured, the difference of halves in %, and predicted."""
    ways = ("module", "one", "one again", "nimble", "ours")
    lines = [
        f"{'network':16}{'dtype':9}"
        + "".join(f"{way:>18}" for way in ways)
        + f"{'gain':>8}{'said':>8}{'in s':>7}"
    ]
    for row in rows:
        head = f"{row['network']:16}{row['dtype']:9}"
        if "error" in row:
            lines.append(head + row["error"])
            continue
        cells = []
        for way in ways:
            first, second = row["measured_s"][way]
            said = row["predicted_s"].get(way)
            cells.append(
                f"{first * 1e6:8.1f}{100 * (second / first - 1):+5.1f}"
                + (f"{said * 1e6:5.0f}" if said else " " * 5)
            )
        measured = {way: sum(row["measured_s"][way]) for way in ways}
        gain, said = (
            measured["one"] / measured["ours"],
            row["predicted_s"]["one"] / row["predicted_s"]["ours"],
        )
        wrong = "" if all(row["same"].values()) else "  RESULTS DIFFER"
        lines.append(
            head + "".join(cells) + f"{gain:8.3f}{said:8.3f}{row['chosen_in_s']['ours']:7.1f}{wrong}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
