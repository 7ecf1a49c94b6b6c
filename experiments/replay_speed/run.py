"""How long does it take to replay graphs of many kernels, and how much memory? See README.md."""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

from costmodel.files import write_json
from costmodel.planner import KernelGraph, replay
from costmodel.planner._replay import critical_path
from costmodel.planner.graphs._kernel_graph import (
    Dependencies,
    DependencyKind,
    Resource,
    TaskKind,
    sort_topologically,
)
from costmodel.planner.whatif._fuse import remove_launches


@dataclass(frozen=True)
class Cost:
    """What a graph took, in a process of its own.

    Attributes:
        kernels: Its kernels; each has a launch.
        dependencies: What waits for what.
        replay_s: Wall time of a replay.
        shuffled_s: The same where the tasks stand in no order, so that one is found first.
        critical_path_s: Of the critical path, by name.
        graphs_s: Of removing all launches and replaying again.
        peak_bytes: Most memory that the process had at once.
    """

    kernels: int
    dependencies: int
    replay_s: float
    shuffled_s: float
    critical_path_s: float
    graphs_s: float
    peak_bytes: int


def main() -> None:
    args = parse()
    if args.alone:
        print(json.dumps(asdict(measure(args.kernels[0], args.streams, args.seed))))
        return
    costs = [run(kernels, args) for kernels in args.kernels]
    print(table(costs))
    if args.json:
        write_json(args.json, [asdict(cost) for cost in costs])


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernels", type=int, nargs="+", help="sizes of graphs")
    parser.add_argument("--streams", type=int)
    parser.add_argument("--seed", type=int)
    parser.add_argument("--alone", action="store_true", help="measure the first size in this process")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def run(kernels: int, args: argparse.Namespace) -> Cost:
    """Measure one size in a process of its own."""
    command = [sys.executable, __file__, "--alone", "--kernels", str(kernels)]
    command += ["--streams", str(args.streams), "--seed", str(args.seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Cost(**json.loads(done.stdout))


def measure(kernels: int, streams: int, seed: int) -> Cost:
    """Replay one graph, as it is and with its tasks shuffled."""
    graph = made_up(kernels, streams, np.random.default_rng(seed))
    began = time.perf_counter()
    timeline = replay(graph)
    replayed = time.perf_counter()
    critical_path(timeline).by_name()
    followed = time.perf_counter()
    replay(remove_launches(graph))
    removed = time.perf_counter()
    edges, n = graph.dependencies, len(graph)
    shuffle = np.random.default_rng(seed).permutation(n)
    again = time.perf_counter()
    sort_topologically(n, shuffle[edges.sources], shuffle[edges.targets])
    ordered = time.perf_counter() - again
    return Cost(
        kernels,
        len(edges),
        replayed - began,
        replayed - began + ordered,
        followed - replayed,
        removed - followed,
        1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    )


def made_up(kernels: int, streams: int, draw: np.random.Generator) -> KernelGraph:
    """Launches of a thread, kernels on streams in turn; every tenth waits for one of another stream."""
    launches, works = 2 * np.arange(kernels), 2 * np.arange(kernels) + 1
    tenth = works[streams::10]
    parts = [
        Dependencies.of(launches[:-1], launches[1:], DependencyKind.ORDER, 1e-6),
        Dependencies.of(works[:-streams], works[streams:], DependencyKind.ORDER, 1e-6),
        Dependencies.of(launches, works, DependencyKind.LAUNCH, 4e-6, True),
        Dependencies.of(tenth - 2, tenth, DependencyKind.EVENT),
    ]
    n = 2 * kernels
    kinds = np.tile(np.array([TaskKind.LAUNCH, TaskKind.KERNEL], dtype=np.int8), kernels)
    resources = [
        Resource("thread", is_stream=False),
        *(Resource(f"stream {i}", True) for i in range(streams)),
    ]
    resource_ids = np.zeros(n, dtype=np.int32)
    resource_ids[works] = 1 + np.arange(kernels) % streams
    durations = np.where(kinds == TaskKind.KERNEL, draw.exponential(8e-6, n), 4e-6)
    names = ("cudaLaunchKernel", *(f"kernel_{i}" for i in range(50)))
    name_ids = np.where(kinds == TaskKind.KERNEL, 1 + draw.integers(0, 50, n), 0).astype(np.int32)
    nothing = np.zeros(n, dtype=np.int32)
    return KernelGraph(
        names=names,
        name_ids=name_ids,
        kinds=kinds,
        resources=tuple(resources),
        resource_ids=resource_ids,
        durations_s=durations,
        ready_s=np.zeros(n),
        sms=nothing,
        blocks=nothing.astype(np.int64),
        block_warps=nothing,
        sm_blocks=nothing,
        scopes=("",),
        scope_ids=nothing,
        workloads=("",),
        workload_ids=nothing,
        dependencies=Dependencies.joined(parts),
    )


def table(costs: Sequence[Cost]) -> str:
    """Markdown: one row a graph."""
    names = ("kernels", "dependencies", "replay, s", "shuffled, s", "critical path, s", "CUDA graphs, s")
    lines = [f"| {' | '.join(names)} | peak memory, MB |", "|" + " ---: |" * 7]
    lines += [
        f"| {cost.kernels:,} | {cost.dependencies:,} | {cost.replay_s:.2f} | {cost.shuffled_s:.2f} "
        f"| {cost.critical_path_s:.2f} | {cost.graphs_s:.2f} | {cost.peak_bytes / 1e6:,.0f} |"
        for cost in costs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
