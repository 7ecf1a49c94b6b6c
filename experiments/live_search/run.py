"""Live search on a GPU against TVM's stock tuner, on the whole device and on a part of it: see README.md."""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from limited import ProcessFailedError, messages
from report import draw, table
from results import Found, Results
from searches import FAIR, OURS, SEARCHES, STOCK, Case, Settings, search
from side_by_side import measure_side_by_side

from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from options import parse_options

STARTING_S = 20.0  # imports of a process, before its clock starts


@dataclass(frozen=True)
class Job:
    """A search of a case; it ends when its trials are made or its time is up, whichever is first."""

    case: Case
    name: str
    trials: int
    limit_s: float


def main() -> None:
    """Search, compare side by side what was found, and print it; each search is kept once it is done."""
    # TVM's worker processes import ``stock_part`` from here.
    here, others = str(Path(__file__).parent), os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = f"{here}:{others}" if others else here
    args = parse()
    end = time.monotonic() + args.time_limit
    model = str(args.model.resolve()) if args.model else None
    threads = len(os.sched_getaffinity(0))
    settings = Settings(args.runner, threads, model, args.population, args.generations)
    results = Results(args.out, args.resume)
    for job in plan(args):
        if not results.has(job.case, job.name):
            search_in_time(results, job, settings, end - args.comparing)
    if args.comparing:
        compare(results, settings, end)
    rows = results.judged()
    write_json(args.json, rows)
    print(table(rows))
    if args.plot and rows:
        draw(rows, args.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="JSON, kept as it goes")
    parser.add_argument("--resume", type=Path, metavar="FILE", help="what --out of an earlier run holds")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE", help="what was compared")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="PNG of the best kernel over time")
    parser.add_argument("--model", type=Path, help="file that has not seen the workloads (default: none)")
    parser.add_argument("--runner", choices=("cuda", "cpu"))
    parser.add_argument("--workload", action="append", help="name; again for more")
    parser.add_argument("--sms", type=int, action="append", help="0: all; again for more")
    parser.add_argument("--seed", type=int, action="append", help="again for more")
    parser.add_argument("--search", action="append", choices=SEARCHES, help="again for more (default: all)")
    parser.add_argument("--trials", type=int, help="of a search")
    parser.add_argument("--shipped-trials", type=int, help="of stock as shipped")
    parser.add_argument("--seconds", type=float, help="that a search has")
    parser.add_argument("--shipped-seconds", type=float, help="that stock as shipped has")
    parser.add_argument("--population", type=int, help="of stock's evolution")
    parser.add_argument("--generations", type=int, help="of stock's evolution")
    parser.add_argument("--comparing", type=float, help="s kept for comparing; 0: do not compare yet")
    parser.add_argument("--time-limit", type=float, help="s in which all ends")
    return parse_options(parser, __file__, argv)


def plan(args: argparse.Namespace) -> list[Job]:
    """The searches, most important first: ours beside stock's in each case, then stock as shipped."""
    cases = [Case(workload, sms, seed) for seed, sms, workload in product(args.seed, args.sms, args.workload)]
    jobs = [Job(case, name, args.trials, args.seconds) for case in cases for name in (OURS, FAIR)]
    first = cases[: len(args.workload)]  # one seed, one number of SMs
    jobs += [Job(case, STOCK, args.shipped_trials, args.shipped_seconds) for case in first]
    return [job for job in jobs if job.name in (args.search or SEARCHES)]


def search_in_time(results: Results, job: Job, settings: Settings, end: float) -> None:
    """Make a search, unless it could outlast ``end``; one that fails costs the others nothing."""
    case = job.case
    what = f"{case.workload} on {case.sms or 'all'} SMs, seed {case.seed}: {job.name}"
    if time.monotonic() + STARTING_S + job.limit_s > end:
        say(f"{what}: no time left")
        return
    try:
        found = search_for(job, settings)
    except ProcessFailedError as error:
        say(f"{what}: {error}")
        return
    results.add(case, job.name, found)
    say(f"{what}: {found['measured']} trials in {found['seconds']:.0f} s")


def search_for(job: Job, settings: Settings) -> Found:
    """What a search has found when it ends or its time is up."""
    begin, improvements = time.monotonic(), []
    for batch in messages(search, job.name, job.case, settings, job.trials, limit_s=job.limit_s):
        if not batch["measured"]:
            begin = time.monotonic()
        improvements += batch["improvements"]
    return {**batch, "seconds": min(time.monotonic() - begin, job.limit_s), "improvements": improvements}


def compare(results: Results, settings: Settings, end: float) -> None:
    """Measure side by side what searches found that have not been compared, as far as time goes."""
    groups = {group: results.steps(*group) for group in results.groups()}
    if not groups:
        return
    limit_s = max(0.0, end - STARTING_S - time.monotonic())
    try:
        for message in messages(measure_side_by_side, groups, settings, limit_s=limit_s):
            if message:
                results.judge(*message)
    except ProcessFailedError as error:
        say(f"comparing side by side: {error}")


if __name__ == "__main__":
    main()
