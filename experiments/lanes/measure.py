"""What several tuning jobs gain on one GPU in turns and on lanes, and what they find: see README.md here."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import wait
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from cores import BuilderCores, cores
from crew import Crew, count_lanes, load, measured, opened

from costmodel.collector import Request
from costmodel.collector.runners import MpsDaemon
from costmodel.errors import CostModelError
from costmodel.jobs import JobFile, JobStore, TuneSettings
from costmodel.kernels.metaschedule import sample_candidates
from costmodel.records import Candidate, Workload, read_records

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

AFTER, TURNS, LANES = "one after another", "at once, in turns", "at once, on lanes"
ALONE, AGAIN, LANE_ALONE = "alone", "alone again (A/A)", "on a lane, nothing beside it"
TURNS_AGAIN = "at once, in turns, again (A/A)"
# What the winners take at least, and what four jobs at once do.
WINNERS_S, AGAIN_S = 60.0, 35.0
# Jobs get so long, one after the other and at once.
MOST_S = 90.0, 50.0
FINALISTS = 3


class Notes:
    """What is known so far, in lines of JSON that are on the disk at once; and the time that is left."""

    def __init__(self, out: Path, limit_s: float) -> None:
        out.mkdir(parents=True, exist_ok=True)
        self._path, self._end = out / "lanes.jsonl", time.monotonic() + limit_s
        self.found: dict[str, Any] = {}

    @property
    def left_s(self) -> float:
        return self._end - time.monotonic()

    def add(self, name: str, work: Callable[[], Any]) -> Any:
        """Do something and keep what comes of it; what fails costs itself."""
        start = time.monotonic()
        try:
            self.found[name] = found = work()
            line = {"name": name, "found": found}
        except Exception as error:  # noqa: BLE001 (it is kept)
            found, line = None, {"name": name, "error": f"{type(error).__name__}: {error}"[:2000]}
        line["took_s"] = round(time.monotonic() - start, 2)
        with self._path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(json.dumps(line)[:300], file=sys.stderr, flush=True)
        return found


def main() -> None:
    """Count lanes, tune one after another and at once, and look for winners."""
    args = parse()
    notes = Notes(args.out, args.time_limit)
    cuda = args.runner == "cuda"
    check_device(args.runner)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        daemon = mps_environment(stack) if cuda else {}
        if cuda:
            notes.add("lanes counted", partial(counted, args, daemon))
            notes.add("lanes counted without MPS", partial(counted, args, {}))
        notes.add(AFTER, partial(tuned, args, folder / "after", notes, crew=1))
        notes.add(TURNS, partial(tuned, args, folder / "turns", notes, crew=args.lanes))
        if daemon and notes.left_s > WINNERS_S + 30.0:
            on_lanes = partial(tuned, args, folder / "lanes", notes, crew=args.lanes, environment=daemon)
            notes.add(LANES, on_lanes)
        notes.add("winners", partial(winners, args, folder / "winners", notes, daemon))
        if notes.left_s > AGAIN_S:
            notes.add(TURNS_AGAIN, partial(tuned, args, folder / "again", notes, crew=args.lanes))
    print(tables(notes.found))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument("--runner", choices=("cuda", "cpu"))
    parser.add_argument("--sms", type=int, help="of a lane, and of each job")
    parser.add_argument("--lanes", type=int, help="of the GPU, and jobs at once")
    parser.add_argument("--workload", action="append", help="of a job each; again for more")
    parser.add_argument("--trials", type=int, help="of each job")
    parser.add_argument("--builders", type=int, help="build processes of each worker")
    parser.add_argument("--tasks", type=int, help="whose winners are looked for")
    parser.add_argument("--kernels", type=int, help="of each of these tasks")
    parser.add_argument("--time-limit", type=float, help="s in all")
    return parse_options(parser, __file__, argv)


def check_device(runner: str) -> None:
    if runner == "cuda" and not Path("/dev/nvidiactl").exists():
        sys.exit("The runner cuda must have an NVIDIA GPU, but there is none here. Try --runner cpu.")


def mps_environment(stack: ExitStack) -> dict[str, str]:
    """Variables of the clients of an MPS daemon that limits nobody; none where no daemon comes up."""
    try:
        return stack.enter_context(MpsDaemon()).environment(100)
    except CostModelError as error:
        print(error, file=sys.stderr)
        return {}


def counted(args: argparse.Namespace, environment: Mapping[str, str]) -> dict[str, Any]:
    """The lanes as the device counts them."""
    with mock.patch.dict(os.environ, environment):
        return count_lanes(args.sms, args.lanes, 40.0)


def tuned(
    args: argparse.Namespace,
    folder: Path,
    notes: Notes,
    *,
    crew: int,
    environment: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Do a job for each workload with so many workers, which begin at once.

    Returns:
        Seconds from their start to their end, what was measured, and how busy builders kept the machine.
    """
    folder.mkdir()
    store, records = JobStore(str(folder / "jobs.db")), folder / "records"
    for workload in args.workload:
        settings = TuneSettings(learn_from="nothing", seed=1)
        store.submit(
            JobFile(
                workloads=(workload,),
                sms=(args.sms,),
                trials=args.trials,
                runner=args.runner,
                settings=settings,
            ).job()
        )
    line = [sys.executable, "-m", "costmodel", "jobs", "work", "--once", "--runner", args.runner]
    line += ["--store", store.place, "--records", str(records), "--engine", f"local://{args.builders}"]
    line += ["--lanes"] if environment else []
    start = time.monotonic()
    with BuilderCores() as building, (folder / "log").open("wb") as log:
        workers = [
            subprocess.Popen(
                line, env=os.environ | dict(environment or {}), stdout=log, stderr=log, start_new_session=True
            )
            for _ in range(crew)
        ]
        end = start + min(MOST_S[crew > 1], notes.left_s)
        while time.monotonic() < end and any(worker.poll() is None for worker in workers):
            time.sleep(0.05)
        codes = [worker.poll() for worker in workers]  # None of one that is not done: what it measured counts
        for worker in workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
    seconds = time.monotonic() - start
    rows = [m for path in sorted(records.glob("*.jsonl")) for m in read_records(path)]
    valid = [m for m in rows if m.latencies_s]
    times = sorted(datetime.fromisoformat(m.measured_at).timestamp() for m in valid)
    return {
        "seconds": seconds,
        "codes": codes,
        "measured": len(rows),
        "valid": len(valid),
        "beside_others": sum(bool(m.co_runners) for m in rows),
        "valid_per_hour": 3600 * len(valid) / seconds,
        "window_s": times[-1] - times[0] if times else 0.0,
        "builder_s": building.seconds,
        "cores": cores(),
        "builders_used": building.seconds / seconds / cores(),
        "best_s": {job.name: job.latency_s for job in store.list()},
        "states": {job.name: job.state for job in store.list()},
        "log": (folder / "log").read_text(errors="replace")[-1500:],
    }


def winners(args: argparse.Namespace, folder: Path, notes: Notes, daemon: Mapping[str, str]) -> None:
    """Measure the kernels of some tasks alone, in turns, on lanes, and alone again."""
    kernels = folder / "kernels"
    with opened(args.runner, kernels, builders=args.builders) as runner:
        tasks = built(runner, args, notes)
        notes.add(
            "kernels", lambda: {name: [each.candidate_id for each in some] for name, some in tasks.items()}
        )
        for candidates in tasks.values():  # off the clock: puts inputs on the device
            measured(runner, candidates[:1], args.sms, 2, lane=False)

        def alone(visit: int) -> dict[str, Any]:
            return {name: measured(runner, some, args.sms, visit, lane=False) for name, some in tasks.items()}

        notes.add(ALONE, partial(alone, 0))
        with load(cores() - 1):
            for name, lanes in {TURNS: False, LANES: True}.items():
                if lanes and not daemon:
                    continue
                crew = Crew(args.runner, kernels, args.sms, args.lanes, lanes)
                with mock.patch.dict(os.environ, daemon if lanes else {}):
                    limit_s = max(10.0, notes.left_s - 12.0)
                    notes.add(f"winners {name}", partial(crew.measure, tasks, limit_s))
        notes.add(AGAIN, partial(alone, 1))


def built(runner: Any, args: argparse.Namespace, notes: Notes) -> dict[str, list[Candidate]]:
    """The kernels of those tasks that are built in time: on a CPU drawn ones, else recorded ones."""
    chosen = drawn(runner, args) if args.runner == "cpu" else recorded(args)
    platform, deadline = runner.platform(args.sms), time.monotonic() + max(5.0, notes.left_s - 45.0)
    jobs = {
        name: [runner.submit([Request(each, platform, 3)]) for each in some] for name, some in chosen.items()
    }
    waits = [job for some in jobs.values() for job in some]
    wait(waits, deadline - time.monotonic())
    for job in waits:
        job.cancel()
    return {name: chosen[name] for name, some in jobs.items() if all(_is_done(job) for job in some)}


def _is_done(job: Any) -> bool:
    return job.done() and not job.cancelled()


def recorded(args: argparse.Namespace) -> dict[str, list[Candidate]]:
    """Kernels at random of workloads at equal distances, among those that ran wherever they were measured."""
    from co_run.run import load as loaded
    from co_run.run import spread

    from costmodel.dataset import find_dataset

    data = loaded(find_dataset())
    works = data.rows.groupby("candidate")["latency_s"].max() < np.inf
    by_workload: dict[str, list[Candidate]] = {}
    for position in works.index[works]:
        by_workload.setdefault(data.candidates[position].workload.name, []).append(data.candidates[position])
    rng = np.random.default_rng(0)
    return {
        name: [by_workload[name][i] for i in rng.permutation(len(by_workload[name]))[: args.kernels]]
        for name in spread(sorted(by_workload), args.tasks)
    }


def drawn(runner: Any, args: argparse.Namespace) -> dict[str, list[Candidate]]:
    """Random kernels of small workloads."""
    names = [f"matmul-m{16 * (i + 1)}-n32-k32" for i in range(args.tasks)]
    jobs = {name: runner.draw(sample_candidates, Workload.parse(name), args.kernels, 0) for name in names}
    return {name: job.result() for name, job in jobs.items()}


def tables(found: Mapping[str, Any]) -> str:
    """Markdown: throughput, and how good winners are."""
    lines = ["| jobs | seconds | first to last | valid | an hour | times | cores builders used |"]
    lines += ["| --- |" + " ---: |" * 6]
    base = found.get(AFTER)
    for name in (AFTER, TURNS, LANES, TURNS_AGAIN):
        if one := found.get(name):
            times = f"{one['valid_per_hour'] / base['valid_per_hour']:.2f}" if base else ""
            lines.append(
                f"| {name} | {one['seconds']:.1f} | {one['window_s']:.1f} | {one['valid']} "
                f"| {one['valid_per_hour']:,.0f} | {times} | {one['builders_used']:.0%} |"
            )
    lines += [
        "",
        "| winners | tasks | shift: median | p90 | worst | score: median | worst | finalists | worst |",
    ]
    lines += ["| --- |" + " ---: |" * 8]
    if ALONE in found and AGAIN in found:
        ways = {AGAIN: found[AGAIN]}
        for name in (TURNS, LANES):
            if one := found.get(f"winners {name}"):
                ways[name] = one["latency_s"]
                ways |= {LANE_ALONE: one["lane_alone_s"]} if one["lane_alone_s"] else {}
        lines += [row(name, way, found[ALONE], found[AGAIN]) for name, way in ways.items()]
    return "\n".join(lines)


def row(name: str, way: Mapping[str, Any], alone: Mapping[str, Any], again: Mapping[str, Any]) -> str:
    """How far latencies of a way of measuring are off, and what its winners are worth.

    Winners of measuring alone are chosen by the first visit, and all are judged by the second. Finalists are
    the three best of a way, of which the first visit, alone, chooses one.
    """
    shifts, scores, finals = [], [], []
    for task, latencies in way.items():
        first, second, here = (np.array(each, float) for each in (alone[task], again[task], latencies))
        works = np.isfinite(first) & np.isfinite(second) & np.isfinite(here)
        if works.sum() < 2:
            continue
        first, second, here = first[works], second[works], here[works]
        shifts.append(np.abs(here / first - 1))
        best_s = second[first.argmin()]
        scores.append(best_s / second[here.argmin()])
        finalists = here.argsort()[:FINALISTS]
        finals.append(best_s / second[finalists[first[finalists].argmin()]])
    if not shifts:
        return f"| {name} | 0 |" + " |" * 7
    shift = np.concatenate(shifts)
    return (
        f"| {name} | {len(scores)} | {np.median(shift):.2%} | {np.quantile(shift, 0.9):.2%} "
        f"| {shift.max():.2%} | {np.median(scores):.4f} | {min(scores):.4f} | {np.median(finals):.4f} "
        f"| {min(finals):.4f} |"
    )


if __name__ == "__main__":
    main()
