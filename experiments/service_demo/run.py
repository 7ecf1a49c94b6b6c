"""Does a tuning service on this machine survive kill -9? See README.md."""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

TESTS = Path(__file__).resolve().parents[2] / "tests"
sys.path.append(str(TESTS))

import postgres  # noqa: E402
from service import Service  # noqa: E402

import costmodel  # noqa: E402
from costmodel.records import Measurement, read_records  # noqa: E402
from costmodel.service import JobFile, JobStore  # noqa: E402
from costmodel.service._status import JobStatus  # noqa: E402
from costmodel.tuning import Cpu, SearchSettings  # noqa: E402

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options  # noqa: E402


class Survived(msgspec.Struct):
    """What became of the jobs.

    Attributes:
        seconds: From the first process to the last answer.
        jobs: By name, what was found.
        measured: Kernels that were measured in all.
        before: Of them, those measured before the kills.
        lost: Of these, those that are not there any more, or changed.
        twice: Kernels that were measured more than once.
        deaths: Workers that died of their tasks.
        by_rank: Kernels that another process measured that asked for the same afterwards.
    """

    seconds: float
    jobs: dict[str, str]
    measured: int
    before: int
    lost: int
    twice: int
    deaths: int
    by_rank: int


def main() -> None:
    arguments = parse()
    programs = postgres.programs()
    if programs is None:
        sys.exit("A PostgreSQL server must be there: install the system's, or `pip install pgserver`.")
    with tempfile.TemporaryDirectory() as folder, postgres.server(programs) as url:
        found = demonstrate(url.format("postgres"), Path(folder), arguments.workloads, arguments.trials)
    for name, sentence in found.jobs.items():
        say(f"{name}: {sentence}")
    say(
        f"{found.measured} kernels were measured in {found.seconds:.0f} s, {found.before} of them before the "
        f"kills. Lost: {found.lost}. Measured twice: {found.twice}. A rank that asked for the same kernels "
        f"afterwards measured {found.by_rank}."
    )
    if arguments.json:
        arguments.json.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=2) + b"\n")
    sys.exit(found.lost or found.twice or found.by_rank or "no kernel" in found.jobs.values())


def demonstrate(place: str, folder: Path, workloads: Sequence[str], trials: int) -> Survived:
    """Tune workloads at once, a job each, and kill a builder and a worker in the middle."""
    begun, store = time.monotonic(), JobStore(place)
    progress = Progress(store)
    for workload in workloads:
        job = JobFile(workloads=(workload,), sms=(1,), trials=trials, runner="cpu").job()
        say(f"Job {store.submit(job)}: {workload}, {trials} kernels to measure.")
    with Service(place, folder) as service:
        service.start_scheduler()
        for number in (1, 2):
            service.start_builder(f"builder-{number}")
            service.start_worker(f"worker-{number}")
        say("Started: PostgreSQL, a Dask scheduler, two builders, two workers that measure on this CPU.")
        while (victim := _busy_worker(service, store)) is None:
            progress.tell()
            _check_alive(service, ["worker-1", "worker-2"])
            if not _is_open(store):
                sys.exit(f"All jobs ended before a worker could be killed:\n{service.said('worker-1')}")
        before = _stored(service)
        for name in ("builder-1", victim):
            service.kill(name)
            say(f"kill -9 {name}")
        service.start_builder("builder-3")
        service.start_worker("worker-3")
        say("Joined: a builder and a worker.")
        while _is_open(store):
            progress.tell()
            _check_alive(service, sorted({"worker-1", "worker-2", "worker-3"} - {victim}))
        progress.tell()
        after = _stored(service)
        by_rank = sum(_ask_again(place, path, trials) for path in sorted(service.records.glob("*.jsonl")))
    jobs = store.list()
    return Survived(
        seconds=time.monotonic() - begun,
        jobs={job.name: _answer(job) for job in reversed(jobs)},
        measured=len(after),
        before=len(before),
        lost=sum(measurement not in after for measurement in before),
        twice=len(after) - len({measurement.key for measurement in after}),
        deaths=sum(task.deaths for job in jobs for task in job.tasks),
        by_rank=by_rank,
    )


def _ask_again(place: str, records: Path, trials: int) -> int:
    """Ask for what a task was for, as a rank that shares its stores does; kernels measured for it."""
    workload, measured = next(read_records(records)).candidate.workload.name, list[object]()
    costmodel.tune(
        workload,
        sms=1,
        trials=trials,
        on=Cpu(records),
        search=SearchSettings(study=place, study_name=records.stem),
        on_trial=measured.append,
    )
    say(f"A rank that asks for {workload} has its kernel, and measured {len(measured)}.")
    return len(measured)


def _busy_worker(service: Service, store: JobStore) -> str | None:
    """The worker that is in the middle of a task; None as long as none is."""
    names = {service.pid(name): name for name in ("worker-1", "worker-2")}
    for job in store.list():
        measured = [m for path in service.records.glob(f"job-{job.id}-*.jsonl") for m in read_records(path)]
        if measured and (holder := job.tasks[0].worker):
            return names[int(holder.rpartition(":")[2])]
    return None


def _is_open(store: JobStore) -> bool:
    """Whether there is anything left to do."""
    return any(job.state in ("waiting", "running") for job in store.list())


def _check_alive(service: Service, workers: Sequence[str]) -> None:
    for name in workers:
        if service.has_ended(name):
            sys.exit(f"{name} ended by itself:\n{service.said(name)}")


class Progress:
    """Says where jobs stand whenever that is new."""

    def __init__(self, store: JobStore) -> None:
        self._store, self._last = store, ""

    def tell(self) -> None:
        """Look, and wait a moment."""
        parts = [f"{job.name}: {job.state}" for job in reversed(self._store.list())]
        if (now := "; ".join(parts)) != self._last:
            say(now)
        self._last = now
        time.sleep(0.1)


def _stored(service: Service) -> list[Measurement]:
    """Each measurement that is on the disk."""
    return [m for path in sorted(service.records.glob("*.jsonl")) for m in read_records(path)]


def _answer(job: JobStatus) -> str:
    (task,) = job.tasks
    return task.answer.sentences[0] if task.answer and job.state == "done" else "no kernel"


def say(sentence: str) -> None:
    print(sentence, flush=True)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workloads", nargs="+", help="what is tuned, each as a job of its own")
    parser.add_argument("--trials", type=int, help="kernels to measure of each")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


if __name__ == "__main__":
    main()
