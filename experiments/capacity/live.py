"""Real campaigns and tunes, and how long their stages took: see README.md here."""

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import costmodel
from costmodel.collector import CpuRunner, CudaRunner, Timing
from costmodel.collector._build import prepare_build_worker
from costmodel.collector.runners._bench import DeviceJobs
from costmodel.kernels.metaschedule._source import MetaSchedule

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options
from pipeline_throughput.run import draw, measure
from stopwatch import BUILD, MEASURE, HostWatch, TimedEngine, Watched, noted_s, timed_measurement


class WatchedCpuRunner(Watched, CpuRunner):
    """A CPU that says what is asked of it."""


class WatchedCudaRunner(Watched, CudaRunner):
    """A GPU that says what is asked of it."""


Live = WatchedCpuRunner | WatchedCudaRunner
RUNNERS: dict[str, type[Live]] = {"cuda": WatchedCudaRunner, "cpu": WatchedCpuRunner}
ARCHITECTURES = {"cuda": "sm_90", "cpu": ""}
# A CPU that others use is noisy.
TIMING = {"cuda": Timing(), "cpu": Timing(precision=0.05)}


def main() -> None:
    """Run the same work with each number of builders in turn, several times over."""
    args = parse()
    runs: list[dict[str, Any]] = []
    for _ in range(args.repeats):
        for builders in args.builders:
            for run in live_runs(args, builders):
                runs.append(run)
                args.json.write_text(json.dumps({"runner": args.runner, "runs": runs}) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="where results go")
    parser.add_argument("--runner", choices=RUNNERS)
    parser.add_argument("--builders", type=int, action="append", help="build processes; again for more")
    parser.add_argument("--workload", action="append", help="name; again for more")
    parser.add_argument("--kernels", type=int, help="of each workload in a campaign")
    parser.add_argument("--trials", type=int, help="of a tune")
    parser.add_argument("--repeats", type=int, help="times that all is run")
    return parse_options(parser, __file__, argv)


def live_runs(args: argparse.Namespace, builders: int) -> Iterator[dict[str, Any]]:
    """A campaign, a tune of each workload one after the other, and the same tunes at once."""
    count = len(args.workload)
    with opened(args.runner, builders) as (runner, notes):
        candidates = draw(runner, args.workload, args.kernels)
        work = {"kind": "campaign", "workloads": count, "kernels": args.kernels}
        yield noted(work | {"builders": builders}, runner, notes, partial(measure, runner, candidates))
    for at_once in (1, count):
        with opened(args.runner, builders) as (runner, notes):
            draw(runner, args.workload[:1], 2 * builders)  # processes start
            work = {"kind": "tunes", "jobs": count, "trials": args.trials, "at_once": at_once}
            run = partial(tune_all, runner, args.workload, args.trials, at_once)
            yield noted(work | {"builders": builders}, runner, notes, run)


@contextmanager
def opened(kind: str, builders: int) -> Iterator[tuple[Live, Path]]:
    """A runner that watches, and the folder where its builders and device note how long they take."""
    with tempfile.TemporaryDirectory() as notes, tempfile.TemporaryDirectory() as kernels:
        prepare = partial(prepare_build_worker, [MetaSchedule()], kind, ARCHITECTURES[kind])
        jobs = DeviceJobs(time=partial(timed_measurement, Path(notes)))
        with (
            TimedEngine(Path(notes), builders, prepare) as engine,
            RUNNERS[kind](
                engine=engine, device_jobs=jobs, timing=TIMING[kind], kernels=Path(kernels)
            ) as runner,
        ):
            runner.watch = HostWatch()
            yield runner, Path(notes)


def noted(work: dict[str, Any], runner: Live, notes: Path, run: Callable[[], object]) -> dict[str, Any]:
    """Do some work, and tell how long it and its stages took."""
    runner.watch.begin()  # a campaign asks from this thread
    start = time.perf_counter()
    run()
    found = work | {"seconds": round(time.perf_counter() - start, 3)}
    print(found, file=sys.stderr, flush=True)
    stages = {"build_s": noted_s(notes, BUILD), "measure_s": noted_s(notes, MEASURE)}
    if work["kind"] == "tunes":
        stages |= {"start_s": runner.watch.start_s, "propose_s": runner.watch.propose_s}
    return found | stages


def tune_all(runner: Live, workloads: Sequence[str], trials: int, at_once: int) -> None:
    with ThreadPoolExecutor(at_once) as threads:
        list(threads.map(partial(tune, runner, trials), workloads))


def tune(runner: Live, trials: int, workload: str) -> None:
    runner.watch.begin()
    costmodel.tune(workload, trials=trials, on=runner, prior=None)


if __name__ == "__main__":
    main()
