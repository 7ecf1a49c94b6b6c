"""Candidates a minute of our pipeline and of TVM's own, on the same kernels: see README.md here."""

import argparse
import math
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector.runners._base import Request
from costmodel.files import write_json
from costmodel.kernels import open_space, sample_candidates
from costmodel.records import Candidate, Platform, Workload

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from options import parse_options

RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}
TUNER_BATCH = 64  # num_trials_per_iter of TVM's tune_tir
SIDE_BY_SIDE = 8  # kernels of a workload that a campaign times together, unless told otherwise
# Stock gives up a build after 30 s. That includes an import of 15 to 90 s, which each batch pays for anew.
BUILD_TIMEOUT_S = 600.0
STOCK, BATCHES = "stock, one batch", f"stock, batches of {TUNER_BATCH}"
LONG_S = 50e-6  # a launch of 3 to 4 us, which stock's timer may include, is then under a tenth

Latencies = dict[str, float]  # seconds by candidate id, of those that ran


class Results:
    """What is known so far, in a file that is written after each step."""

    def __init__(self, path: Path, platform: Platform) -> None:
        self._path, self._platform = path, platform
        self.pipelines: dict[str, dict[str, Any]] = {}

    def add(self, name: str, count: int, seconds: float, latencies: Latencies) -> None:
        """Keep what a pipeline did with ``count`` candidates."""
        self.pipelines[name] = {
            "candidates": count,
            "ran": len(latencies),
            "seconds": seconds,
            "per_minute": 60 * count / seconds,
            "latency_s": latencies,
        }
        say(f"{name}: {count} candidates in {seconds:.1f} s, {len(latencies)} of them ran")
        content = {"platform": msgspec.to_builtins(self._platform), "pipelines": self.pipelines}
        write_json(self._path, content)


def main() -> None:
    """Measure the same candidates with each pipeline, ours first."""
    args = parse()
    end = time.monotonic() + args.time_limit
    with RUNNERS[args.runner]() as runner:
        results = Results(args.json, runner.platform())
        candidates = draw(runner, args.workload, args.kernels)
        results.add("ours, workers running", len(candidates), *timed(lambda: measure(runner, candidates)))
    others: dict[str, Callable[[], Callable[[], Latencies]]] = {
        "ours, with start-up": lambda: partial(measure_from_start, args.runner, candidates),
        STOCK: lambda: partial(Stock(candidates, args.runner).measure, len(candidates)),
        BATCHES: lambda: partial(Stock(candidates, args.runner).measure, TUNER_BATCH),
    }
    for name, prepare in others.items():
        if time.monotonic() > end:
            sys.exit(f"The time is over before {name!r}: give it a longer --time-limit.")
        work = prepare()  # off the clock
        results.add(name, len(candidates), *timed(work))
    print(table(results.pipelines))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where results go")
    parser.add_argument("--runner", choices=RUNNERS)
    parser.add_argument("--time-limit", type=float, help="s after which no pipeline starts")
    parser.add_argument("--workload", action="append", help="name; again for more")
    parser.add_argument("--kernels", type=int, help="of each workload")
    return parse_options(parser, __file__, argv)


def draw(runner: CudaRunner | CpuRunner, names: Sequence[str], count: int) -> list[Candidate]:
    """Random candidates of each workload, drawn in parallel."""
    say(f"drawing {count} candidates of each of {len(names)} workloads")
    drawn = {
        name: [
            runner.draw(sample_candidates, Workload.parse(name), min(SIDE_BY_SIDE, count), seed)
            for seed in range(math.ceil(count / SIDE_BY_SIDE))
        ]
        for name in names
    }
    return [
        candidate
        for jobs in drawn.values()
        for candidate in islice({c.candidate_id: c for job in jobs for c in job.result()}.values(), count)
    ]


def timed(work: Callable[[], Latencies]) -> tuple[float, Latencies]:
    """Seconds that ``work`` takes, and what it gives."""
    start = time.monotonic()
    found = work()
    return time.monotonic() - start, found


def measure(runner: CudaRunner | CpuRunner, candidates: Sequence[Candidate]) -> Latencies:
    """Build and measure on the whole device."""
    platform = runner.platform()
    runner.prefetch(candidates)
    by_workload: dict[str, list[Request]] = {}
    for candidate in candidates:
        by_workload.setdefault(candidate.workload.name, []).append(Request(candidate, platform))
    batches = [
        runner.submit(requests[i : i + SIDE_BY_SIDE])
        for requests in by_workload.values()
        for i in range(0, len(requests), SIDE_BY_SIDE)
    ]
    measurements = [measurement for batch in batches for measurement in batch.result()]
    return {m.candidate.candidate_id: m.latency_s for m in measurements if m.latencies_s}


def measure_from_start(kind: str, candidates: Sequence[Candidate]) -> Latencies:
    """The same, from before the first worker is there."""
    with RUNNERS[kind]() as runner:
        return measure(runner, candidates)


class Stock:
    """TVM's ``LocalBuilder`` and ``LocalRunner``, ready to measure candidates.

    The schedules are applied here, off the clock; our build workers apply them on it.
    """

    def __init__(self, candidates: Sequence[Candidate], kind: str) -> None:
        from tvm.s_tir import meta_schedule as ms

        say("applying schedules and starting the stock builder and runner, off the clock")
        self._ms, self._candidates, self._device = ms, candidates, kind
        spaces = [open_space(candidate.workload, kind) for candidate in candidates]
        modules = [space.schedule(c.config).mod for space, c in zip(spaces, candidates, strict=True)]
        self._inputs = [
            ms.builder.BuilderInput(mod, s.target) for mod, s in zip(modules, spaces, strict=True)
        ]
        self._arguments = [ms.arg_info.ArgInfo.from_entry_func(mod, remove_preproc=True) for mod in modules]
        self._builder = ms.builder.LocalBuilder(timeout_sec=BUILD_TIMEOUT_S)
        self._runner = ms.runner.LocalRunner()

    def measure(self, batch: int) -> Latencies:
        """Build and measure batch by batch, as the stock tuner does."""
        found: Latencies = {}
        for start in range(0, len(self._candidates), batch):
            found |= self._measure(slice(start, start + batch))
        return found

    def _measure(self, some: slice) -> Latencies:
        built = self._builder.build(self._inputs[some])
        say(f"stock: {sum(b.artifact_path is not None for b in built)} built")
        found: Latencies = {}
        for candidate, build, arguments in zip(
            self._candidates[some], built, self._arguments[some], strict=True
        ):
            if build.artifact_path is None:
                say(f"stock cannot build {candidate.candidate_id}: {last_line(build.error_msg)}")
                continue
            request = self._ms.runner.RunnerInput(build.artifact_path, self._device, arguments)
            (future,) = self._runner.run([request])
            result = future.result()
            if result.run_secs is None:
                say(f"stock cannot run {candidate.candidate_id}: {last_line(result.error_msg)}")
            else:
                found[candidate.candidate_id] = float(np.median([float(s) for s in result.run_secs]))
            shutil.rmtree(Path(str(build.artifact_path)).parent)
        return found


def table(pipelines: dict[str, dict[str, Any]]) -> str:
    """Markdown: the rates, and how far the latencies agree."""
    ours, again, stock = (pipelines[n] for n in ("ours, workers running", "ours, with start-up", STOCK))
    lines = [
        "| pipeline | candidates | ran | seconds | candidates a minute | times stock |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
        *(
            f"| {name} | {p['candidates']} | {p['ran']} | {p['seconds']:.1f} | {p['per_minute']:.0f} "
            f"| {p['per_minute'] / stock['per_minute']:.1f} |"
            for name, p in pipelines.items()
        ),
        "",
        "| latencies | kernels | median difference | 90th percentile | median of ours / other |",
        "| --- | ---: | ---: | ---: | ---: |",
        agreement("ours against stock, all", ours, stock),
        agreement(f"ours against stock, {LONG_S * 1e6:.0f} us and longer", ours, stock, LONG_S),
        agreement("ours against ours again (A/A)", ours, again),
    ]
    return "\n".join(lines)


def agreement(name: str, one: dict[str, Any], other: dict[str, Any], shortest_s: float = 0.0) -> str:
    """A row: |ratio - 1| over the kernels that ran in both and take ``shortest_s`` or more."""
    a, b = one["latency_s"], other["latency_s"]
    ratios = np.array([a[k] / b[k] for k in a.keys() & b.keys() if a[k] >= shortest_s])
    if not ratios.size:
        return f"| {name} | 0 | | | |"
    shift = np.abs(ratios - 1)
    return (
        f"| {name} | {ratios.size} | {np.median(shift):.2%} | {np.quantile(shift, 0.9):.2%} "
        f"| {np.median(ratios):.4f} |"
    )


def last_line(message: object) -> str:
    return str(message).strip().splitlines()[-1]


if __name__ == "__main__":
    main()
