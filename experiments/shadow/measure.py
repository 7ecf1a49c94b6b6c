"""What a service loses while kernels are tuned beside it, and what tuning loses: see README.md here."""

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import costmodel
from costmodel.collector import CpuRunner, CudaRunner, Runner, ServiceWatch
from costmodel.collector.runners._base import CannotGoOnError, Request
from costmodel.collector.runners._bench import DeviceJobs
from costmodel.collector.runners._mps import MpsDaemon
from costmodel.collector.runners._service_watch import ServiceReport
from costmodel.collector.runners._wrapped import WrappedRunner
from costmodel.errors import CostModelError
from costmodel.kernels._sources import open_sources
from costmodel.records import Candidate, Measurement, Outcome, Platform, Workload
from costmodel.search import Pool, SearchSpace, Trial

sys.path.append(str(Path(__file__).parent))
import apart
import service

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options
from report import ALONE, BESIDE, BUILDING, EXCLUSIVE, WATCHED, read_requests, table

from costmodel.tuning import Beside, SearchSettings

SOURCE = {"cuda": "cuda", "cpu": "metaschedule"}  # of kernels, by runner
BUILDS = 16  # kernels to build beside the service: done within the seconds that the phase takes
SERVICE_CORES = 2
RESERVE_S = 8.0  # for what comes after the watched tuning and a last look
STARTED = time.monotonic()

Task = tuple[str, int]  # workload and seed


class Pooled(WrappedRunner):
    """A runner whose spaces are pools of kernels that are built already, and that notes when it measures."""

    def __init__(self, runner: Runner, pools: dict[str, list[Candidate]]) -> None:
        super().__init__(runner)
        self.runner, self.pools, self.spans = runner, pools, list[tuple[float, float]]()

    @property
    def in_flight(self) -> int:
        """One, as all is built: with the watch and without it a search learns after each kernel."""
        return 1

    def space(
        self, workload: Workload | str, platforms: Sequence[Platform], *, source: str | None = None
    ) -> SearchSpace:
        return Pool(self.pools[workload if isinstance(workload, str) else workload.name], *platforms)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        start = time.monotonic()
        try:
            return super().measure(candidates, platform, visit=visit)
        finally:
            self.spans.append((start, time.monotonic()))


class Record:
    """What was found, line by line: nothing that is done is lost."""

    def __init__(self, path: Path) -> None:
        self._out = path.open("a", buffering=1)
        self.rows: list[dict[str, Any]] = []

    def add(self, kind: str, **values: Any) -> None:
        row = {"kind": kind, **values}
        self.rows.append(row)
        self._out.write(json.dumps(row) + "\n")
        print(f"{time.monotonic() - STARTED:5.1f} s {kind} {str(values)[:150]}", file=sys.stderr, flush=True)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind]

    @contextmanager
    def caught(self, what: str) -> Iterator[None]:
        """Go on with the next case where this one fails."""
        try:
            yield
        except Exception as error:  # noqa: BLE001 (one try: a case that fails must not take the others)
            self.add("error", what=what, error=f"{type(error).__name__}: {error}"[:500])


def main() -> None:
    args = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # the service and MPS must end too
    args.out.mkdir(parents=True, exist_ok=True)
    if (args.out / "record.jsonl").exists():
        sys.exit(f"{args.out} must hold no other measurement. Name another folder.")
    record = Record(args.out / "record.jsonl")
    record.add("start", arguments={name: str(value) for name, value in vars(args).items()})
    with ExitStack() as stack, record.caught("all"):
        measure(args, record, stack)
    print(table(record.rows, read_requests(args.out)))
    sys.exit(not record.of("tuned"))


def measure(args: argparse.Namespace, record: Record, stack: ExitStack) -> None:
    """Tune exclusively, beside the service and beside it with the watch, and measure all answers again."""
    jobs, process = start_service(args, record, stack)
    stack.callback((args.out / "stop").touch)
    kinds: dict[str, Any] = {"cuda": CudaRunner, "cpu": CpuRunner}
    sources = open_sources([SOURCE[args.runner]])
    runner = stack.enter_context(kinds[args.runner](sources=sources, device_jobs=jobs))
    platform = runner.platform(args.sms)
    record.add("platform", name=platform.name, sms=platform.sms_granted, software=platform.software)
    pooled = Pooled(runner, pools_of(runner, platform, args, record))
    await_ready(args, record, process)
    tasks = [(name, seed) for seed in args.seed for name in pooled.pools]
    for task in tasks:
        tune(pooled, record, EXCLUSIVE, task, args)
    (args.out / "go").touch()
    tune_beside(pooled, platform, tasks, args, record)
    (args.out / "stop").touch()
    time.sleep(0.5)
    for name, pool in pooled.pools.items():
        with record.caught(f"again {name}"):
            measure_again(runner, pool, platform, record)


def tune_beside(
    pooled: Pooled, platform: Platform, tasks: Sequence[Task], args: argparse.Namespace, record: Record
) -> None:
    """All that is measured while the service serves; what the time does not suffice for ends early."""
    look(record, ALONE[0], args.alone)
    with record.caught(BUILDING):
        more = drawn(pooled.runner, tasks[0][0], platform, min(args.pool, BUILDS), seed=1)
        pooled.prefetch(more)
        look(record, BUILDING, args.alone)
    for task in tasks:
        tune(pooled, record, BESIDE, task, args)
    look(record, ALONE[1], args.alone)
    log = args.out / "latencies.log"
    watch = ServiceWatch(log, may_lose=args.may_lose, longest_pause_s=args.pause, silence_s=5.0)
    end_by = STARTED + args.time_limit - RESERVE_S - args.alone
    for i, task in enumerate(tasks):
        now = time.monotonic()
        deadline = now + max(1.0, end_by - now) / (len(tasks) - i)
        tune(pooled, record, WATCHED, task, args, watch, deadline)
    look(record, ALONE[2], args.alone)


def start_service(
    args: argparse.Namespace, record: Record, stack: ExitStack
) -> tuple[DeviceJobs, subprocess.Popen[bytes] | None]:
    """The service in a process of its own, under MPS on a GPU; else in a thread of the one that measures."""
    sms = args.sms if args.runner == "cuda" else 0
    if args.in_thread or (sms and not started_mps(record, stack)):
        os.environ[service.FOLDER] = f"{args.out.resolve()}|{sms}|{args.think}"
        return DeviceJobs(describe=service.describe_with_service), None
    if sms:
        look_whether_apart(sms, record)
    command = [sys.executable, service.__file__, "--folder", str(args.out), "--sms", str(sms)]
    said = stack.enter_context((args.out / "service.txt").open("wb"))
    process = subprocess.Popen(
        [*command, "--think", str(args.think)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stdout=said,
        stderr=said,
    )
    stack.callback(end, process, args.out / "stop")
    set_cores_apart(process.pid, record)
    return DeviceJobs(), process


def look_whether_apart(sms: int, record: Record) -> None:
    """Note whether the SMs of two processes are apart."""
    with record.caught("apart"):
        command = [sys.executable, apart.__file__, "--sms", str(sms)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        if done.returncode:
            raise CostModelError(done.stderr[-400:])
        record.add("apart", **json.loads(done.stdout))


def set_cores_apart(pid: int, record: Record) -> None:
    """Give a process two cores that this one, and those that it starts from now on, leave alone."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 * SERVICE_CORES:
        return
    with record.caught("cores"):
        os.sched_setaffinity(pid, cores[:SERVICE_CORES])
        os.sched_setaffinity(0, cores[SERVICE_CORES:])
        record.add("cores", service=cores[:SERVICE_CORES], others=len(cores) - SERVICE_CORES)


def started_mps(record: Record, stack: ExitStack) -> bool:
    """Whether processes share the GPU from now on, rather than take turns."""
    try:
        daemon = stack.enter_context(MpsDaemon())
    except CostModelError as error:
        record.add("mps", started=False, error=str(error))
        print(f"MPS does not start, so the service is a thread of the process that measures: {error}")
        return False
    os.environ.update(daemon.environment(100))
    record.add("mps", started=True)
    return True


def end(process: "subprocess.Popen[bytes]", stop: Path) -> None:
    """End the service; a client of MPS must not be killed while it works."""
    stop.touch()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def await_ready(args: argparse.Namespace, record: Record, process: "subprocess.Popen[bytes] | None") -> None:
    """Wait until the service can serve.

    Raises:
        CostModelError: It has ended, or takes too long.
    """
    ready, deadline = args.out / "ready.json", time.monotonic() + 60
    while not ready.exists() or not ready.read_text():
        if (process and process.poll() is not None) or time.monotonic() > deadline:
            said = (args.out / "service.txt").read_text()[-1000:] if process else ""
            raise CostModelError(f"The service must get ready within a minute, but did not: {said}")
        time.sleep(0.05)
    where = json.loads(ready.read_text())
    record.add("service", **where)


def drawn(runner: Runner, name: str, platform: Platform, count: int, seed: int) -> list[Candidate]:
    """Distinct kernels of a workload, at random."""
    space = runner.space(name, [platform])
    rng = np.random.default_rng(seed)
    configs = list(space.draw(count, rng).configs)
    chosen = rng.permutation(len(configs))[:count]
    found = {c.candidate_id: c for c in (space.candidate(configs[i]) for i in chosen)}
    return list(found.values())


def pools_of(
    runner: Runner, platform: Platform, args: argparse.Namespace, record: Record
) -> dict[str, list[Candidate]]:
    """Kernels of each workload that work; all are built side by side."""
    candidates = {name: drawn(runner, name, platform, args.pool, seed=0) for name in args.workload}
    runner.prefetch([each for of_workload in candidates.values() for each in of_workload])
    works = {name: working(runner, name, each, platform, record) for name, each in candidates.items()}
    return {name: pool for name, pool in works.items() if pool}


def working(
    runner: Runner, name: str, candidates: Sequence[Candidate], platform: Platform, record: Record
) -> list[Candidate]:
    """Those of a workload's kernels that work, measured while nothing else runs."""
    with record.caught(f"pool {name}"):
        measured = runner.measure(candidates, platform)
        works = [m for m in measured if m.outcome is Outcome.OK]
        latencies = {m.candidate.candidate_id: m.latency_s for m in works}
        record.add("pool", workload=name, drawn=len(measured), latency_s=latencies)
        return [m.candidate for m in works]
    return []


def look(record: Record, name: str, seconds: float) -> None:
    """Let the service serve for a while."""
    start = time.monotonic()
    time.sleep(seconds)
    record.add("phase", name=name, start=start, end=time.monotonic())


def tune(  # noqa: PLR0913, PLR0917 (what, how, and where it is noted)
    runner: Pooled,
    record: Record,
    way: str,
    task: Task,
    args: argparse.Namespace,
    beside: ServiceWatch | None = None,
    deadline: float = float("inf"),
) -> None:
    """Tune a workload, and note the answer, the times, and what the service lost."""

    def in_time(_: Trial) -> None:
        if time.monotonic() > deadline:
            raise CannotGoOnError("the time of the experiment is over")

    runner.spans.clear()
    (name, seed), start = task, time.monotonic()
    fared: list[ServiceReport] = []
    with record.caught(f"{way} {name} {seed}"):
        result = costmodel.tune(
            name,
            sms=args.sms,
            trials=args.trials,
            on=Beside(runner, beside, fared.append) if beside else runner,
            prior=None,
            search=SearchSettings(seed=seed),
            on_trial=in_time,
        )
        record.add(
            "tuned",
            way=way,
            workload=name,
            seed=seed,
            best=result.best.candidate.candidate_id,
            best_s=result.best.latency_s[0],
            trials=len(result.trials),
            service=asdict(fared[0]) if fared else None,
        )
    spans = list(runner.spans)  # before the first of them the watch has looked at the service alone
    start = spans[0][0] if spans else start
    record.add("phase", name=way, workload=name, start=start, end=time.monotonic(), spans=spans)


def measure_again(runner: Any, pool: Sequence[Candidate], platform: Platform, record: Record) -> None:
    """Time all answers for a workload side by side, twice, with nothing else on the GPU."""
    name = pool[0].workload.name
    ids = {row["best"] for row in record.of("tuned") if row["workload"] == name}
    (known,) = (row["latency_s"] for row in record.of("pool") if row["workload"] == name)
    best = min(known, key=known.__getitem__)
    chosen = [candidate for candidate in pool if candidate.candidate_id in ids | {best}]
    for visit in (1, 2):
        measured = runner.submit([Request(c, platform, visit) for c in chosen]).result()
        record.add(
            "again",
            workload=name,
            visit=visit,
            best_of_pool=best,
            latency_s={m.candidate.candidate_id: m.latency_s for m in measured},
        )


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="where results go")
    parser.add_argument("--runner", choices=SOURCE)
    parser.add_argument("--time-limit", type=float, help="s that all of it may take")
    parser.add_argument("--workload", action="append", help="name; again for more")
    parser.add_argument("--sms", type=int, help="SMs to tune on; the service has the rest")
    parser.add_argument("--pool", type=int, help="kernels of each workload, built before")
    parser.add_argument("--trials", type=int, help="of each search")
    parser.add_argument("--seed", type=int, action="append", help="again for more")
    parser.add_argument("--alone", type=float, help="s of the service alone, each time")
    parser.add_argument("--think", type=float, help="mean s between two requests")
    parser.add_argument("--may-lose", type=float, help="share by which p99 may rise")
    parser.add_argument("--in-thread", action="store_true", help="do without MPS and a second process")
    parser.add_argument("--pause", type=float, help="longest pause in s")
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
