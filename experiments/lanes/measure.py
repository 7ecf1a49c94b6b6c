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
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any
from unittest import mock

from cores import BuilderCores, cores
from crew import Crew, Tasks, count_lanes, load, measured, opened
from report import AFTER, AGAIN, ALONE, COUNTED, LANE_ALONE, LANES, TURNS, TURNS_AGAIN, report, tables

from costmodel.collector.runners._mps import MpsDaemon
from costmodel.dataset import load_dataset
from costmodel.errors import CostModelError
from costmodel.kernels import sample_candidates
from costmodel.records import Candidate, Workload, read_records
from costmodel.service import JobFile, JobStore
from costmodel.service._job import TuneSettings

sys.path.append(str(Path(__file__).parents[1]))
from kit.kernels import draw_kernels
from options import parse_options

WINNERS_S = 15.0  # what measuring winners takes


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
    check_device(args.runner)
    signal.signal(signal.SIGTERM, end_all)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        comparison = Comparison(args, args.keep or folder / "kernels", notes)
        notes.add("prepared", partial(comparison.prepare, stack))
        jobs = partial(tuned, args, notes)
        notes.add(AFTER, partial(jobs, folder / "after", crew=1, spare_s=WINNERS_S))
        notes.add(TURNS, partial(jobs, folder / "turns", crew=args.lanes, spare_s=WINNERS_S))
        comparison.measure()
        if comparison.daemon and notes.left_s > args.most_at_once / 2:
            daemon = mps_environment(stack)  # one that never had another client
            notes.add(LANES, partial(jobs, folder / "lanes", crew=args.lanes, environment=daemon))
        if notes.left_s > args.most_at_once / 2:
            notes.add(TURNS_AGAIN, partial(jobs, folder / "again", crew=args.lanes))
    print(tables(report(notes.found)))


def end_all(*_: Any) -> None:
    """End as an error does, with all that was started."""
    sys.exit("It was told to end.")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument("--runner", choices=("cuda", "cpu"))
    parser.add_argument("--sms", type=int, help="of a lane, and of each job")
    parser.add_argument("--lanes", type=int, help="of the GPU, and jobs at once")
    parser.add_argument("--workload", action="append", help="of a job each; again for more")
    parser.add_argument("--trials", type=int, help="of each job")
    parser.add_argument("--builders", type=int, help="build processes of a worker that is alone")
    parser.add_argument("--builders-at-once", type=int, help="build processes of each of several workers")
    parser.add_argument("--tasks", type=int, help="whose winners are looked for")
    parser.add_argument("--kernels", type=int, help="of each of these tasks")
    parser.add_argument("--keep", type=Path, metavar="DIR", help="keeps the kernels of these tasks")
    parser.add_argument("--most-after", type=float, help="s after which one worker is ended")
    parser.add_argument("--most-at-once", type=float, help="s after which several are")
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


def tuned(  # noqa: PLR0913 (what is done, where, and how long)
    args: argparse.Namespace,
    notes: Notes,
    folder: Path,
    *,
    crew: int,
    environment: Mapping[str, str] | None = None,
    spare_s: float = 0.0,
) -> dict[str, Any]:
    """Do a job for each workload with so many workers, which begin at once, and leave that much time.

    Returns:
        Seconds from their start to their end, what was measured, and how busy builders kept the machine. A
        kernel counts once, also where the best are measured again alone.
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
    builders = args.builders_at_once if crew > 1 else args.builders
    line = [sys.executable, "-m", "costmodel", "jobs", "work", "--once", "--runner", args.runner]
    line += ["--store", store.place, "--records", str(records), "--engine", f"local://{builders}"]
    line += ["--lanes"] if environment else []
    start, started_at = time.monotonic(), time.time()
    with BuilderCores() as building, (folder / "log").open("wb") as log:
        workers = [
            subprocess.Popen(
                line, env=os.environ | dict(environment or {}), stdout=log, stderr=log, start_new_session=True
            )
            for _ in range(crew)
        ]
        end = start + min(args.most_at_once if crew > 1 else args.most_after, notes.left_s - spare_s)
        try:
            while time.monotonic() < end and any(worker.poll() is None for worker in workers):
                time.sleep(0.05)
        finally:
            codes = [worker.poll() for worker in workers]  # None of one that is not done
            for worker in workers:
                if worker.poll() is None:  # what it measured counts
                    os.killpg(worker.pid, signal.SIGKILL)
                    worker.wait()
        seconds = time.monotonic() - start
    rows = [m for path in sorted(records.glob("*.jsonl")) for m in read_records(path)]
    valid = {m.candidate.candidate_id for m in rows if m.latencies_s}
    measured_at = sorted(datetime.fromisoformat(m.measured_at).timestamp() for m in rows) or [started_at]
    window_s = measured_at[-1] - measured_at[0]
    return {
        "seconds": seconds,
        "codes": codes,
        "builders": builders,
        "measured": len(rows),
        "valid": len(valid),
        "beside_others": sum(bool(m.co_runners) for m in rows),
        "valid_per_hour": 3600 * len(valid) / seconds,
        "window_s": window_s,
        "at_s": [round(each - started_at, 2) for each in measured_at],
        "builder_s": building.seconds,
        "cores": cores(),
        "builders_used": building.seconds / seconds / cores(),
        "builders_used_in_window": building.between(measured_at[0], measured_at[-1])
        / max(window_s, 1e-9)
        / cores(),
        "best_s": {job.name: job.latency_s for job in store.list()},
        "states": {job.name: job.state for job in store.list()},
        "log": (folder / "log").read_text(errors="replace")[-1500:],
    }


class Comparison:
    """Measures the kernels of some tasks alone, in turns, on lanes, and alone again.

    What does so, and the kernels, is there before the jobs start, and waits without work.

    Args:
        args: Options.
        kernels: Folder of the kernels.
        notes: What is known.

    Attributes:
        daemon: Variables of MPS clients; none where there is no MPS.
    """

    def __init__(self, args: argparse.Namespace, kernels: Path, notes: Notes) -> None:
        self._args, self._kernels, self._notes = args, kernels, notes
        self.daemon: dict[str, str] = {}
        self._crews: dict[str, Crew] = {}
        self._tasks: dict[str, list[Candidate]] = {}

    def prepare(self, stack: ExitStack) -> dict[str, list[str]]:
        """Build, open processes, and count lanes meanwhile.

        Args:
            stack: Ends all that is opened.

        Returns:
            Ids of the kernels of each task.
        """
        args, notes = self._args, self._notes
        deadline = time.monotonic() + min(50.0, notes.left_s / 2)
        self.daemon = mps_environment(stack) if args.runner == "cuda" else {}
        self._open_crews(stack)
        self._runner = stack.enter_context(opened(args.runner, self._kernels, builders=args.builders))
        if args.runner == "cpu":
            chosen = drawn(self._runner, args)
        else:
            chosen = draw_kernels(load_dataset(), args.kernels, count=args.tasks)
        built = {name: Event() for name in chosen}
        for name, some in chosen.items():
            self._runner._builders.when_built(some, built[name].set)
        if args.runner == "cuda":
            notes.add(COUNTED[0], partial(counted, args, self.daemon))
            notes.add(COUNTED[1], partial(counted, args, {}))
        for name, event in built.items():
            if event.wait(max(0.0, deadline - time.monotonic())):
                self._tasks[name] = chosen[name]
        self._runner._builders.close()  # what is not built by now would be in the way
        first = {name: some[:1] for name, some in self._tasks.items()}
        self._alone(first, 2)  # off the clock: it puts inputs on the device
        for name, crew in list(self._crews.items()):
            self._told(name, f"{name}: opened in s", partial(crew.wait_ready, 30.0))

        def warm_up(crew: tuple[str, Crew]) -> None:
            self._told(crew[0], f"{crew[0]}: warmed up", partial(crew[1].measure, first, 30.0))

        with ThreadPoolExecutor() as threads:
            list(threads.map(warm_up, list(self._crews.items())))
        return {name: [each.candidate_id for each in some] for name, some in self._tasks.items()}

    def _open_crews(self, stack: ExitStack) -> None:
        for name, environment in {TURNS: {}, LANES: self.daemon}.items():
            if name == TURNS or environment:
                args = self._args
                with mock.patch.dict(os.environ, environment):
                    crew = Crew(args.runner, self._kernels, args.sms, args.lanes, lanes=name == LANES)
                self._crews[name] = crew
                stack.callback(crew.close)

    def _told(self, name: str, note: str, work: Callable[[], Any]) -> None:
        """Note what a crew does; one that fails is done with: what it says later would be taken for more."""
        if name in self._crews and self._notes.add(note, work) is None:
            self._crews.pop(name).close()

    def measure(self) -> None:
        """Measure; both visits alone frame the others."""
        if not self._tasks:
            return
        notes, limit_s = self._notes, max(10.0, self._notes.left_s / 2)
        notes.add(ALONE, partial(self._alone, self._tasks, 0))
        with load(cores() - 1):
            for name, crew in list(self._crews.items()):
                if crew.lanes:
                    first = partial(crew.measure, self._tasks, limit_s, first_alone=True)
                    self._told(name, LANE_ALONE, first)
                self._told(name, f"winners {name}", partial(crew.measure, self._tasks, limit_s))
        notes.add(AGAIN, partial(self._alone, self._tasks, 1))
        for crew in self._crews.values():
            crew.close()

    def _alone(self, tasks: Tasks, visit: int) -> dict[str, Any]:
        sms = self._args.sms
        return {name: measured(self._runner, some, sms, visit, lane=False) for name, some in tasks.items()}


def drawn(runner: Any, args: argparse.Namespace) -> dict[str, list[Candidate]]:
    """Random kernels of small workloads."""
    names = [f"matmul-m{16 * (i + 1)}-n32-k32" for i in range(args.tasks)]
    jobs = {name: runner.draw(sample_candidates, Workload.parse(name), args.kernels, 0) for name in names}
    return {name: job.result() for name, job in jobs.items()}


if __name__ == "__main__":
    main()
