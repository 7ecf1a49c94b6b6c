"""Runs networks with branches on one stream, on Nimble's and on ours, as CUDA graphs: see README.md.

On a machine with a GPU and PyTorch; or on a CPU, in turn and with made-up launches, as a rehearsal.
"""

import argparse
import json
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import msgspec
import torch
from facts import kernels_of_replay, pairs, recorded_tasks, waits_s
from networks import NETWORKS
from runs import Placement, Program, Streams, captured, interleaved_s
from stages import MeasuredStages

from costmodel.planner import KernelGraph, beside_others, on_best_streams, on_streams, replay
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.whatif._schedule import Kernels

Label = dict[str, str]

MOST_STREAMS = 8
# Networks whose stages are few enough to be measured.
STAGED = ("inception-a", "inception-c", "inception-e")
# Ways of the tables that are printed.
ROW_WAYS = ("module", "one", "one again", "nimble", "ours")
STAGE_WAYS = ("one", "one again", "stages", "ours")
# Nodes of a network, from its longest to its shortest, that are run side by side in pairs.
_PAIRED_NODES = 8
# What of the time is for measuring, once kernels are recorded.
_SHARE_OF_TIMES = 0.65
# The longest that the kernels of one network may take to record.
_PATIENCE_S = 30


@dataclass(frozen=True)
class Case:
    """A network that is measured, and on what.

    Attributes:
        network: Its name.
        half: Whether it computes in float16.
        tasks: Its kernels.
        streams: Of the device.
        wait_s: Seconds that a wait for another stream takes.
        rounds: How often each way is timed.
        end: When measuring must be over, on the monotonic clock.
    """

    network: str
    half: bool
    tasks: list[JsonTask]
    streams: Streams
    wait_s: float
    rounds: int
    end: float

    def program(self) -> Program:
        """The network, warmed up."""
        found = Program.of(self.network, "cuda" if self.streams.is_cuda else "cpu", half=self.half)
        found.warm_up(self.streams)
        return found

    def graph(self) -> KernelGraph:
        """Its kernels."""
        return graph_of(self.tasks, self.network)

    def ours(self) -> KernelGraph:
        """Its kernels on our streams."""
        return on_best_streams(self.graph(), most=MOST_STREAMS, wait_s=self.wait_s)


def main() -> None:
    args = parse()
    if args.device == "cuda" and not torch.cuda.is_available():
        raise SystemExit(
            "A GPU that PyTorch can use is needed, but there is none: --device cpu is a rehearsal."
        )
    args.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    end = began + args.time_limit
    labels = [
        {"network": name, "dtype": dtype}
        for dtype in ("float16", "float32")
        for name in args.only or NETWORKS
    ]
    tasks = list(recorded(labels, args, end - _SHARE_OF_TIMES * args.time_limit))
    write(args.out / "about.jsonl", about(args.device) | {"recorded_in_s": time.monotonic() - began})
    with torch.no_grad():
        streams = Streams(args.device, MOST_STREAMS)
        waits = waits_s(streams)
        write(args.out / "about.jsonl", {"waits_s": waits})
        rows: dict[str, list[dict[str, Any]]] = {part: [] for part in PARTS}
        for part, dtype in ORDER:
            for label, found in zip(labels, tasks, strict=True):
                if label["dtype"] != dtype or (part == "stages" and label["network"] not in STAGED):
                    continue

                def measured(label: Label = label, found: Any = found, part: str = part) -> dict[str, Any]:
                    half = label["dtype"] == "float16" and streams.is_cuda
                    return PARTS[part](
                        Case(label["network"], half, tasks_of(found), streams, waits["2"], args.rounds, end)
                    )

                rows[part].append(label | attempt(measured, end))
                write(args.out / f"{part}.jsonl", rows[part][-1])
            done = {"part": part, "dtype": dtype, "done_in_s": time.monotonic() - began}
            write(args.out / "about.jsonl", done)
    print(f"waits, us: { {name: round(each * 1e6, 2) for name, each in waits.items()} }")
    print(table(rows["rows"], ROW_WAYS), table(rows["stages"], STAGE_WAYS), sep="\n\n")
    for part in ("pairs", "traces"):
        failed = (f"{part} of {each['network']}: {each['error']}" for each in rows[part] if "error" in each)
        print(*failed, sep="\n")


def tasks_of(found: dict[str, Any]) -> list[JsonTask]:
    """What was recorded of a network.

    Raises:
        RuntimeError: Nothing was.
    """
    if "error" in found:
        raise RuntimeError(found["error"])
    tasks: list[JsonTask] = found["tasks"]
    return tasks


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


def ways_of(case: Case) -> dict[str, Any]:
    """Predicted and measured seconds of each way to run a network."""
    graph, placed, chosen_in_s = case.graph(), {}, {}
    for way, assign in {
        "one": lambda: graph,
        "nimble": lambda: beside_others(on_streams(graph, MOST_STREAMS), wait_s=case.wait_s),
        "ours": case.ours,
    }.items():
        began = time.perf_counter()
        placed[way] = assign()
        chosen_in_s[way] = time.perf_counter() - began
    program, streams = case.program(), case.streams
    placements = {way: placement(program, each) for way, each in placed.items()}
    ways = {"module": captured(lambda: program.module(program.x), streams)}
    for way, each in [*placements.items(), ("one again", placements["one"])]:
        ways[way] = captured(lambda each=each: program.run(each, streams), streams)
    return {
        "predicted_s": {way: replay(each).makespan_s for way, each in placed.items()},
        "streams": {way: int(each.is_stream.sum()) for way, each in placed.items()},
        "chosen_in_s": chosen_in_s,
        "placements": {way: asdict(each) for way, each in placements.items() if way != "one"},
        "measured_s": interleaved_s(ways, case.rounds, streams),
        "same": {way: same(program, ways["one"].values, ways[way].values) for way in placements},
    }


def staged(case: Case) -> dict[str, Any]:
    """A network by the best stages that are measured, beside one stream and ours."""
    program, streams = case.program(), case.streams
    found = MeasuredStages(program, streams, case.end)
    began = time.perf_counter()
    stages = found.best(Kernels.of(case.graph()))
    chosen_in_s = time.perf_counter() - began
    placements = {"one": placement(program, case.graph()), "ours": placement(program, case.ours())}
    ways = {
        way: captured(lambda each=each: program.run(each, streams), streams)
        for way, each in placements.items()
    }
    ways["stages"] = found.captured(stages)
    ways["one again"] = captured(lambda: program.run(placements["one"], streams), streams)
    return {
        "stages": stages,
        "stages_measured": found.measured,
        "chosen_in_s": {"stages": chosen_in_s},
        "measured_s": interleaved_s(ways, case.rounds, streams),
        "same": {"stages": same(program, ways["one"].values, ways["stages"].values)},
    }


def paired(case: Case) -> dict[str, Any]:
    """What some of the nodes of a network take beside each other."""
    if not case.streams.is_cuda:
        return {}
    longest = sorted(case.tasks, key=lambda task: -task.duration_s)
    nodes = spread([task.id for task in longest], _PAIRED_NODES)
    return {"pairs": pairs(case.program(), nodes, case.streams)}


def traced(case: Case) -> dict[str, Any]:
    """When each kernel of a network starts and ends, on one stream and on ours."""
    if not case.streams.is_cuda:
        return {}
    program, streams = case.program(), case.streams
    found = {}
    for way, graph in {"one": case.graph(), "ours": case.ours()}.items():
        placed = placement(program, graph)
        run = captured(lambda placed=placed: program.run(placed, streams), streams)
        found[way] = {"order": list(placed.order), "kernels": kernels_of_replay(run, streams)}
    return {"traces": found}


# What is measured of each network, by the file that keeps it.
PARTS: dict[str, Callable[[Case], dict[str, Any]]] = {
    "rows": ways_of,
    "stages": staged,
    "pairs": paired,
    "traces": traced,
}
# In which order, in case time is short; a profiler slows down what its process does later.
ORDER = (
    ("rows", "float16"),
    ("stages", "float16"),
    ("pairs", "float16"),
    ("rows", "float32"),
    ("traces", "float16"),
)


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


def table(rows: Sequence[dict[str, Any]], ways: Sequence[str]) -> str:
    """A line for each network: microseconds measured, the difference of halves in %, and predicted."""
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
        said = row.get("predicted_s", {})
        cells = [cell(row["measured_s"][way], said.get(way)) for way in ways]
        gain = sum(row["measured_s"]["one"]) / sum(row["measured_s"]["ours"])
        gain_said = said["one"] / said["ours"] if said else float("nan")
        wrong = "" if all(row["same"].values()) else "  RESULTS DIFFER"
        lines.append(
            head
            + "".join(cells)
            + f"{gain:8.3f}{gain_said:8.3f}{max(row['chosen_in_s'].values()):7.1f}{wrong}"
        )
    return "\n".join(lines)


def cell(halves: Sequence[float], said: float | None) -> str:
    """Microseconds of the first half, what the second differs by in %, and the prediction."""
    first, second = halves
    return f"{first * 1e6:8.1f}{100 * (second / first - 1):+5.1f}" + (
        f"{said * 1e6:5.0f}" if said else " " * 5
    )


if __name__ == "__main__":
    main()
