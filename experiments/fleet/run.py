"""The same jobs with one, two and four GPUs of a host: see README.md here."""

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from itertools import cycle
from pathlib import Path
from random import Random
from statistics import mean, median
from typing import Any

import msgspec

from costmodel.files import write_json
from costmodel.records import Measurement, read_records
from costmodel.service import JobFile, JobStore
from costmodel.service._job import TuneSettings

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from options import parse_options

_SEED = 0
STARTED_S = 60.0  # by then every worker must have measured
LEAST_S = 20.0  # a phase with less of them for it is left out
SETTLED_S = 5.0  # after every worker has measured, before measurements are counted
STOPPED_S = 5.0  # in which all processes of a phase end
TAKEN_OVER_S = 30.0  # by then another worker must have gone on with the task of the killed one
BUILT_AGAIN_S = 120.0  # by then others must have built in the place of killed builders
LOOK_EVERY_S = 0.25
SPACE = 8 << 30  # bytes that the folder of a phase may need


def main() -> None:
    """Run the jobs with each number of GPUs in turn, each time anew; where there are most, kill a worker."""
    args = parse()
    end = time.monotonic() + args.seconds
    result: dict[str, Any] = {"runner": args.runner, "cores": os.cpu_count(), "trials": args.trials}
    result["phases"] = []
    there = args.there or count_gpus()
    numbers = [gpus for gpus in args.gpus if gpus <= there]
    say(f"{there} GPUs are there; measuring with {numbers}")
    for position, gpus in enumerate(numbers):
        left_s = (end - time.monotonic()) / (len(numbers) - position)
        if left_s < LEAST_S:
            say(f"{gpus} GPUs: the time is over")
            break
        kill = not args.no_kill and position == numbers.index(max(numbers))
        result["phases"].append(run_phase(args, gpus, kill=kill, left_s=left_s))
        if args.json:
            write_json(args.json, result)
    print(table(result["phases"]))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    parser.add_argument("--runner", choices=("cuda", "cpu"))
    parser.add_argument("--source", help="where kernels come from")
    parser.add_argument("--gpus", type=int, nargs="+", help="GPUs that measure, one number after the other")
    parser.add_argument("--there", type=int, help="GPUs of this host; 0 looks for them")
    parser.add_argument("--cores", type=int, help="of the host for each GPU")
    parser.add_argument("--workers", type=int, help="for each GPU")
    parser.add_argument("--builders", type=int, help="for each GPU, in one pool")
    parser.add_argument("--kill-builders", action="store_true", help="in the end, and start others")
    parser.add_argument("--no-kill", action="store_true", help="kill nothing")
    parser.add_argument("--learn-from", help="known beforehand: 'nothing', or '' for what jobs use")
    parser.add_argument("--trials", type=int, help="kernels to measure of each task")
    parser.add_argument("--window", type=float, help="s in which measurements are counted")
    parser.add_argument("--seconds", type=float, help="s for everything")
    parser.add_argument("--workload", nargs="+", help="names, where {m} stands for a size")
    parser.add_argument("--sizes", type=int, nargs="+", help="first m, end, step")
    parser.add_argument("--sms", type=int, nargs="+", help="SM budgets, in turn")
    return parse_options(parser, __file__, argv)


def count_gpus() -> int:
    """GPUs that this process may use."""
    if visible := os.environ.get("CUDA_VISIBLE_DEVICES"):
        return len(visible.split(","))
    return len(list(Path("/dev").glob("nvidia[0-9]*")))


@dataclass
class Fleet:
    """Processes of one machine that share a store of jobs: builders, and workers on GPUs.

    Args:
        folder: For the store, records, kernels and what processes say.
        runner: What workers measure with.
        source: Where kernels come from.
    """

    folder: Path
    runner: str
    source: str
    workers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    others: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The store of jobs."""
        return str(self.folder / "jobs.db")

    @property
    def address(self) -> str:
        """The builders."""
        return f"unix://{self.folder / 'builders.sock'}"

    def start_builders(self, count: int) -> None:
        options = ["--engine", self.address, "--count", str(count), "--source", self.source]
        self.others.append(self._start("builders", {}, "builders", *options, "--store", self.place))

    def start_worker(self, gpu: int, number: int) -> None:
        name = f"worker-{gpu}-{number}"
        options = ["--runner", self.runner, "--store", self.place, "--engine", self.address]
        options += ["--records", str(self.folder / "records")]
        self.workers[name] = self._start(name, {"CUDA_VISIBLE_DEVICES": visible(gpu)}, "work", *options)

    def _start(self, name: str, environment: dict[str, str], *line: str) -> subprocess.Popen[bytes]:
        own = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TMPDIR": str(self.folder / "tmp")}
        own |= {"TRITON_CACHE_DIR": str(self.folder / "triton"), "NO_COLOR": "1"}
        (self.folder / "tmp").mkdir(exist_ok=True)
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, str(Path(__file__).with_name("member.py")), *line],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **own, **environment},
            )

    def stored(self) -> list[Measurement]:
        """Each measurement that is on the disk."""
        return [measurement for path in self.record_stores() for measurement in read_records(path)]

    def keys_by_task(self) -> list[list[str]]:
        """What was measured for each task."""
        return [[measurement.key for measurement in read_records(path)] for path in self.record_stores()]

    def record_stores(self) -> list[Path]:
        """A file for each task that was begun."""
        return sorted((self.folder / "records").glob("*.jsonl"))

    def ended(self) -> list[str]:
        """Workers that ended by themselves."""
        return [name for name, process in self.workers.items() if process.poll() is not None]

    def said(self, name: str) -> str:
        """The end of what a process printed."""
        return (self.folder / f"{name}.log").read_text(errors="replace")[-2000:]

    def stop(self) -> None:
        """Interrupt all processes, and end those that do not listen."""
        processes = [*self.workers.values(), *self.others]
        for process in processes:
            process.send_signal(signal.SIGINT)
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def visible(gpu: int) -> str:
    """How CUDA is told of one of the GPUs that this process may use."""
    mine = os.environ.get("CUDA_VISIBLE_DEVICES")
    return mine.split(",")[gpu] if mine else str(gpu)


@contextmanager
def fleet(args: argparse.Namespace, gpus: int) -> Iterator[Fleet]:
    """The processes of a phase, on its share of the cores."""
    cores = sorted(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(prefix="fleet-", dir=memory()) as folder:
        started = Fleet(Path(folder), args.runner, args.source)
        os.sched_setaffinity(0, cores[: args.cores * gpus])
        try:
            yield started
        finally:
            started.stop()
            os.sched_setaffinity(0, cores)


def memory() -> Path | None:
    """A folder in memory, if there is room: the many writers of one SQLite file then wait for no disk."""
    path = Path("/dev/shm")
    return path if os.access(path, os.W_OK) and shutil.disk_usage(path).free > SPACE else None


def run_phase(args: argparse.Namespace, gpus: int, *, kill: bool, left_s: float) -> dict[str, Any]:
    """Submit all jobs, start the processes, and count what they measure in a window of time."""
    begun = time.time()
    with fleet(args, gpus) as running:
        store = JobStore(running.place)
        for job in jobs(args):
            store.submit(job)
        running.start_builders(args.builders * gpus)
        for gpu in range(gpus):
            for number in range(args.workers):
                running.start_worker(gpu, number)
        wait_for(running, len(running.workers), STARTED_S)
        start_s = time.time() - begun
        sleep_watching(running, SETTLED_S)
        first = time.time()
        window_s = min(args.window, left_s - (first - begun) - STOPPED_S - (TAKEN_OVER_S if kill else 0.0))
        sleep_watching(running, window_s)
        last = time.time()
        usage = store.usage(last - first)
        measured = running.stored()
        counted = [m for m in measured if first <= measured_at(m) < last]
        valid = sum(m.outcome == "ok" for m in counted)
        phase = {
            "gpus": gpus,
            "workers": len(running.workers),
            "builders": args.builders * gpus,
            "start_s": round(start_s, 1),
            "window_s": round(last - first, 1),
            "measured": len(counted),
            "valid": valid,
            "valid_an_hour": round(3600 * valid / (last - first)),
            "valid_an_hour_with_start": round(
                3600 * sum(m.outcome == "ok" for m in measured) / (last - begun)
            ),
            "busy": shares(usage),
            "busy_with_start": shares(store.usage(last - begun)),
            "usage": [msgspec.to_builtins(use) | {"busy": round(use.share, 3)} for use in usage],
            "tasks": sum(task.state == "done" for job in store.list() for task in job.tasks),
            "failed": [task.error for job in store.list() for task in job.tasks if task.error],
            "ended": {name: running.said(name) for name in running.ended()},
            "boards": by_board(counted),
            "outcomes": dict(Counter(str(m.outcome) for m in measured)),
        }
        if kill:
            phase["killed"] = kill_one(args, running, store)
            if args.kill_builders:
                phase["killed_builders"] = kill_builders(args.builders * gpus, running)
    say(f"{gpus} GPUs: {phase['valid_an_hour']} valid an hour, busy {phase['busy']}")
    return phase


def jobs(args: argparse.Namespace) -> Iterator[Any]:
    """A job of each workload, budgets in turn; no two share a kernel, so that each must be built.

    All kinds of kernels come once before one comes again, at random otherwise: kinds take the GPU for longer
    or shorter, and phases are to differ in GPUs alone.
    """
    random, kinds, sizes = Random(_SEED), list(args.workload), list(range(*args.sizes))
    random.shuffle(sizes)
    names = [name.replace("{m}", str(m)) for m in sizes for name in random.sample(kinds, len(kinds))]
    settings = TuneSettings(source=args.source, learn_from=args.learn_from or None)
    for name, sms in zip(names, cycle(args.sms), strict=False):
        yield JobFile(
            workloads=(name,), sms=(sms,), trials=args.trials, runner=args.runner, settings=settings
        ).job()


def wait_for(running: Fleet, workers: int, limit_s: float) -> None:
    """Wait until every worker has measured: as many tasks have records."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        begun = sum(1 for keys in running.keys_by_task() if keys)
        if begun >= workers or len(running.ended()) == workers:
            return
        time.sleep(LOOK_EVERY_S)
    say(f"Not every worker has measured after {limit_s:g} s.")


def sleep_watching(running: Fleet, seconds: float) -> None:
    """Sleep, unless all workers are gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and len(running.ended()) < len(running.workers):
        time.sleep(LOOK_EVERY_S)


def measured_at(measurement: Measurement) -> float:
    return datetime.fromisoformat(measurement.measured_at).timestamp()


def by_board(measured: Sequence[Measurement]) -> dict[str, dict[str, Any]]:
    """What each GPU measured, and what may have held it up: unsteady clocks, late launches, short kernels."""
    boards: dict[str, list[Measurement]] = {}
    for each in measured:
        boards.setdefault(each.board, []).append(each)
    return {
        board: {
            "measured": len(here),
            "kinds": dict(Counter(each.candidate.workload.kind for each in here)),
            "attempts": round(mean(each.attempts for each in here), 2),
            "held_down": round(mean(bool(each.before.throttle_reasons) for each in here), 2),
            "clock_mhz": round(median(each.before.spin_clock_mhz for each in here)),
            "launch_us": round(1e6 * median(each.before.launch_s for each in here), 2),
            "latency_us": round(1e6 * median(each.latency_s for each in here), 1),
        }
        for board, here in boards.items()
    }


def shares(usage: Sequence[Any]) -> dict[str, float]:
    """Busy share of builders, of GPUs, and of what workers do with their time."""
    busy: dict[str, list[float]] = {}
    for use in usage:
        busy.setdefault(use.stage, []).append(use.share)
    return {name: round(sum(each) / len(each), 3) for name, each in busy.items()}


def kill_one(args: argparse.Namespace, running: Fleet, store: JobStore) -> dict[str, Any]:
    """Kill a worker in the middle of a task, and see what becomes of the task."""
    held = [
        (job.id, task, next((n for n, p in running.workers.items() if str(p.pid) == pid), None))
        for job in store.list()
        for task in job.tasks
        if task.worker and (pid := task.worker.rpartition(":")[2])
    ]
    found = next((each for each in held if each[2] and has_records(running, each[0])), None)
    if found is None:
        return {"error": "no worker was in the middle of a task"}
    id_, task, name = found
    before = running.stored()
    running.workers[name].kill()
    running.workers.pop(name).wait()
    killed_at = time.monotonic()
    running.start_worker(int(name.split("-")[1]), 100)
    again_s = None
    while again_s is None and time.monotonic() - killed_at < TAKEN_OVER_S:
        (now,) = store.show(id_).tasks
        if now.leases > task.leases and (now.worker or now.state == "done"):
            again_s = time.monotonic() - killed_at
        time.sleep(LOOK_EVERY_S)
    while time.monotonic() - killed_at < TAKEN_OVER_S and store.show(id_).tasks[0].state == "open":
        time.sleep(LOOK_EVERY_S)
    after = running.stored()
    return {
        "worker": name,
        "stored_before": len(before),
        "lost": sum(m not in after for m in before),
        "twice": sum(len(keys) - len(set(keys)) for keys in running.keys_by_task()),
        "taken_over_after_s": again_s and round(again_s, 2),
        "task_state": store.show(id_).tasks[0].state,
        "task_deaths": store.show(id_).tasks[0].deaths,
    }


def kill_builders(count: int, running: Fleet) -> dict[str, Any]:
    """Kill all builders with their pool, start others, and wait until they have built for every worker."""
    before, killed_at = running.stored(), time.monotonic()
    running.others[0].kill()
    running.others.pop(0).wait()
    running.start_builders(count)
    wanted = len(before) + 4 * len(running.workers)
    while len(after := running.stored()) < wanted and time.monotonic() - killed_at < BUILT_AGAIN_S:
        time.sleep(LOOK_EVERY_S)
    return {
        "stored_before": len(before),
        "stored_after": len(after),
        "lost": sum(m not in after for m in before),
        "twice": sum(len(keys) - len(set(keys)) for keys in running.keys_by_task()),
        "seconds": round(time.monotonic() - killed_at, 1),
        "ended": running.ended(),
    }


def has_records(running: Fleet, id_: int) -> bool:
    return any((running.folder / "records").glob(f"job-{id_}-*.jsonl"))


def of_one(phases: Sequence[dict[str, Any]]) -> float:
    """Valid measurements an hour of one GPU, the mean of the phases with the fewest."""
    fewest = min(phase["gpus"] for phase in phases)
    return mean(phase["valid_an_hour"] / fewest for phase in phases if phase["gpus"] == fewest)


def table(phases: Sequence[dict[str, Any]]) -> str:
    """Markdown: measurements an hour, what they are of those of one GPU, and busy shares."""
    lines = [
        "| GPUs | workers | builders | start, s | valid an hour | times one | GPUs busy | builders busy "
        "| workers have tasks | wait |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    one = of_one(phases)
    for phase in phases:
        busy = phase["busy"]
        shown = [f"{100 * busy.get(name, 0.0):.0f} %" for name in ("device", "build", "task", "measure")]
        times = phase["valid_an_hour"] / one if one else 0.0
        lines.append(
            f"| {phase['gpus']} | {phase['workers']} | {phase['builders']} | {phase['start_s']} "
            f"| {phase['valid_an_hour']:,} | {times:.2f} | {' | '.join(shown)} |"
        )
    killed = next((phase["killed"] for phase in phases if "killed" in phase), None)
    builders = next((phase["killed_builders"] for phase in phases if "killed_builders" in phase), None)
    return "\n".join([*lines, "", f"Killed: {killed}", f"Killed builders: {builders}"])


if __name__ == "__main__":
    main()
