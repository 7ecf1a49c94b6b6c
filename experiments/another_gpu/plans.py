"""How far plans are off, which know a kernel by its name, launch and time, beside carrying launches over."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded
from options import parse_options
from recorded import Recorded, budgets

from costmodel.features._facts import candidate_facts
from costmodel.features._platform import platform_limits
from costmodel.features._times import occupancy_of
from costmodel.files import write_json
from costmodel.planner.graphs._json_graph import JsonTask, graph_of
from costmodel.planner.graphs._kernel_graph import KernelGraph
from costmodel.planner.whatif._scale import on_device, on_sms
from costmodel.records import Candidate, Platform
from costmodel.transfer._carry import carry_over

# SMs and GPU that kernels were recorded on, and are asked about.
PAIRS = (
    (("H100", 132), ("H100", 64)),
    (("H100", 132), ("H100", 32)),
    (("H100", 132), ("H100", 8)),
    (("H100", 32), ("H100", 132)),
    (("H100", 132), ("H200", 132)),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", help="shipped datasets")
    parser.add_argument("--kernels", type=int, help="kernels of each workload")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the results are written")
    args = parse_options(parser, __file__, argv)
    rows = [row for name in args.datasets for row in _judge(budgets(name, args.kernels))]
    if args.out:
        write_json(args.out, [rounded(row, 4) for row in rows])
    ways = ("as plans do", "carried over", "same latency")
    cells = [
        [f"{row['dataset']}, {row['pair']}", *(f"{row[w][0]:.1%}, {row[w][1]:.0%}" for w in ways)]
        for row in rows
    ]
    print(markdown_table(["from, to", *ways], cells))


def _judge(data: Recorded) -> Iterator[dict[str, object]]:
    """Yield median and 90th percentile of each way's errors, of kernels of one launch."""
    is_one = np.array([len(each.launches) == 1 and each.launches[0].blocks > 0 for each in data.candidates])
    for known, to in PAIRS:
        here, there = data.place(*known), data.place(*to)
        before, after = data.latency_s[:, here], data.latency_s[:, there]
        at = np.flatnonzero(is_one & np.isfinite(before) & np.isfinite(after))
        kernels = [data.candidates[i] for i in at]
        a, b = data.platforms[here], data.platforms[there]
        said = {
            "as plans do": _planned(kernels, before[at], a, b),
            "carried over": carry_over(before[at], kernels, [a] * len(at), [b] * len(at)).latency_s,
            "same latency": before[at],
        }
        errors = {way: np.abs(each / after[at] - 1) for way, each in said.items()}
        told = {way: [float(np.median(e)), float(np.quantile(e, 0.9))] for way, e in errors.items()}
        pair = f"{known[1]} SMs to {to[1]}" if known[0] == to[0] else f"{known[0]} to {to[0]}"
        yield {"dataset": data.name, "pair": pair, "kernels": len(at), **told}


def _planned(
    kernels: Sequence[Candidate], latency_s: np.ndarray, known: Platform, to: Platform
) -> np.ndarray:
    graph = _graph(kernels, latency_s, known)
    if known.device.name != to.device.name:
        return on_device(graph, known.device, to.device).durations_s
    return on_sms(graph, to.sms_granted).durations_s


def _graph(kernels: Sequence[Candidate], latency_s: np.ndarray, known: Platform) -> KernelGraph:
    """Return what a trace tells of kernels: time, launch, and where it is known the workload."""
    launches = candidate_facts(list(kernels), "estimated").launches
    limits = platform_limits([known], np.zeros(len(kernels), dtype=np.intp))
    held = np.nan_to_num(occupancy_of(launches, limits).blocks_per_sm[:, 0], nan=1.0)
    tasks = [
        JsonTask(
            id=str(i),
            name=kernel.workload.kind,
            duration_s=float(latency_s[i]),
            sms=known.sms_granted,
            blocks=kernel.launches[0].blocks,
            block_warps=-(-kernel.launches[0].threads_per_block // 32),
            sm_blocks=max(1, int(held[i])),
            workload="" if kernel.workload.is_foreign else kernel.workload.name,
        )
        for i, kernel in enumerate(kernels)
    ]
    return graph_of(tasks, "recorded kernels").assuming(device=known.device)


if __name__ == "__main__":
    main()
