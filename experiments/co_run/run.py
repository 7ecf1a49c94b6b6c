"""What measuring on several partitions of a GPU at once gains, and what it costs: see README.md here."""

import argparse
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from scipy.stats import kendalltau

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector.runners._base import Request
from costmodel.dataset import find_dataset
from costmodel.files import write_json
from costmodel.kernels import sample_candidates
from costmodel.learners import score_at_k
from costmodel.records import Candidate, Outcome, Platform, Workload

sys.path.append(str(Path(__file__).parents[1]))
from kit.kernels import draw_kernels, load_recorded
from kit.results import say
from options import parse_options

RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}
ALONE, AGAIN = "alone", "alone again (A/A)"

Kernels = dict[str, list[Candidate]]  # by workload


def main() -> None:
    """Measure each workload's kernels alone, alone again, and beside others."""
    args = parse()
    end = time.monotonic() + args.time_limit
    with RUNNERS[args.runner]() as runner:
        kernels = drawn(runner, args) if args.draw else recorded(args)
        platforms = [runner.platform(sms) for sms in args.sms]
        found: dict[str, dict[str, Any]] = {}
        build(runner, kernels, platforms[0])
        for name, candidates in kernels.items():
            if time.monotonic() > end:
                say(f"the time is over: {len(found)} of {len(kernels)} workloads were measured")
                break
            found[name] = measure_workload(runner, candidates, platforms, args.partitions)
            say(f"{name}: " + ", ".join(f"{k} {v['seconds']:.2f} s" for k, v in found[name].items()))
            content = {"platforms": msgspec.to_builtins(platforms), "workloads": found}
            write_json(args.json, content)
    print(table(found))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where results go")
    parser.add_argument("--runner", choices=RUNNERS)
    parser.add_argument("--time-limit", type=float, help="s after which no workload starts")
    parser.add_argument("--data", type=Path, help="dataset or campaign folder (default: the shipped dataset)")
    parser.add_argument("--draw", action="store_true", help="draw kernels at random: --workload says of what")
    parser.add_argument("--workload", action="append", help="name; again for more (default: 8 of the data)")
    parser.add_argument("--kernels", type=int, help="of each workload")
    parser.add_argument(
        "--sms",
        type=int,
        action="append",
        help="of a partition; again for more",
    )
    parser.add_argument("--partitions", type=int, action="append", help="again for more")
    return parse_options(parser, __file__, argv)


def recorded(args: argparse.Namespace) -> Kernels:
    """Kernels at random among those that ran wherever they were measured."""
    return draw_kernels(load_recorded(args.data or find_dataset()), args.kernels, args.workload or ())


def drawn(runner: CudaRunner | CpuRunner, args: argparse.Namespace) -> Kernels:
    """Kernels at random from the design space."""
    workloads = [Workload.parse(name) for name in args.workload]
    jobs = {w.name: runner.draw(sample_candidates, w, args.kernels, 0) for w in workloads}
    return {name: job.result() for name, job in jobs.items()}


def build(runner: CudaRunner | CpuRunner, kernels: Kernels, platform: Platform) -> None:
    """Build all kernels before the first of them is on the clock: builds load the host."""
    say(f"building {sum(map(len, kernels.values()))} kernels of {len(kernels)} workloads")
    jobs = [runner.submit([Request(c, platform) for c in candidates]) for candidates in kernels.values()]
    for job in jobs:
        job.result()


def measure_workload(
    runner: CudaRunner | CpuRunner,
    candidates: Sequence[Candidate],
    platforms: Sequence[Platform],
    partitions: list[int],
) -> dict[str, dict[str, Any]]:
    """Seconds that each way of measuring takes, and latencies by platform and kernel; None where it fails.

    The ways follow each other closely, so that what drifts slowly meets them alike.
    """
    pairs = [(candidate, platform) for platform in platforms for candidate in candidates]
    ways = {
        ALONE: [Request(*pair) for pair in pairs],
        AGAIN: [Request(*pair, visit=1) for pair in pairs],
        **{f"{n} partitions": [Request(*pair, partitions=n) for pair in pairs] for n in partitions},
    }
    runner.submit(ways[ALONE]).result()  # puts the workload's inputs on the device, off the clock
    found: dict[str, dict[str, Any]] = {}
    for name, requests in ways.items():
        start = time.monotonic()
        measurements = runner.submit(requests).result()
        seconds = time.monotonic() - start
        errors = sorted({m.error for m in measurements if m.outcome is not Outcome.OK})
        latencies = np.array([m.latency_s if m.latencies_s else None for m in measurements])
        latencies = latencies.reshape(len(platforms), len(candidates))
        found[name] = {"seconds": seconds, "latency_s": latencies.tolist(), "errors": errors}
    return found


def table(found: Mapping[str, Mapping[str, Mapping[str, Any]]]) -> str:
    """Markdown: one row for each way of measuring, compared with measuring alone."""
    ways = list(dict.fromkeys(way for workload in found.values() for way in workload if way != ALONE))
    return "\n".join(
        [
            "| measured | measurements | failed | speed-up | shift: median | 90th percentile | max | "
            "Kendall tau: median | worst | Score@1: median | worst |",
            "| --- |" + " ---: |" * 10,
            *(row(way, [(workload[ALONE], workload[way]) for workload in found.values()]) for way in ways),
        ]
    )


def row(way: str, pairs: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]) -> str:
    """A row of the table, from what measuring alone and this way gave for each workload.

    Score@1: the kernel that is fastest this way, as measured alone, against the best one alone.
    """
    alone_s = way_s = failed = 0.0
    shifts, taus, scores = [], [], []
    for alone, other in pairs:
        alone_s, way_s = alone_s + alone["seconds"], way_s + other["seconds"]
        tasks = zip(alone["latency_s"], other["latency_s"], strict=True)
        for a, b in (np.array(task, float) for task in tasks):  # NaN where a kernel failed
            failed += np.sum(np.isfinite(a) & ~np.isfinite(b))
            ran = np.isfinite(a) & np.isfinite(b)
            if ran.sum() < 2:
                continue
            shifts.append(np.abs(b[ran] / a[ran] - 1))
            taus.append(kendalltau(a[ran], b[ran]).statistic)
            scores.append(score_at_k(1 / b[ran], a[ran], 1))
    if not shifts:
        return f"| {way} | 0 | {failed:.0f} |" + " |" * 8
    shift = np.concatenate(shifts)
    return (
        f"| {way} | {shift.size} | {failed:.0f} | {alone_s / way_s:.2f} "
        f"| {np.median(shift):.2%} | {np.quantile(shift, 0.9):.2%} | {shift.max():.2%} "
        f"| {np.median(taus):.3f} | {min(taus):.3f} | {np.median(scores):.3f} | {min(scores):.3f} |"
    )


if __name__ == "__main__":
    main()
