"""Kills workers with SIGKILL again and again, and counts what that costs their jobs."""

import random
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import optuna
from fresh_processes import Process
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend
from postgres import crash, end_connections
from sqlalchemy.exc import IntegrityError, ProgrammingError

from costmodel.databases import parse_database
from costmodel.dataset import CardHeader, build_dataset
from costmodel.errors import CostModelError
from costmodel.records import RecordStore
from costmodel.service import JobFile, JobStore, work
from costmodel.service._job import Job, TuneSettings
from costmodel.service._status import JobStatus
from costmodel.testing import gpu_landscape

WORKLOADS = ("matmul-m512-n512-k512", "matmul-m128-n768-k768")
FINISHED = (optuna.trial.TrialState.COMPLETE, optuna.trial.TrialState.FAIL)
HEADER = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")
# Workers live up to so long; longer, as long as they come to nothing.
_LIFE_S, _LONGER = 0.5, 1.5
# Workers at once, and the shares of kills that take not a worker, but the connections to the database, or the
# database itself.
_CROWD, _CONNECTIONS, _CRASHES = 3, 0.25, 0.1

Told = list[tuple[tuple[tuple[str, object], ...], float | None]]


class Tally(msgspec.Struct):
    """What some kills cost.

    Attributes:
        kills: Workers that were killed, and what else was.
        connections: Of them, times that all connections to the database were ended.
        crashes: Of them, times that the database ended at once and recovered.
        jobs: Jobs that came to their end.
        trials: Trials that were told in all.
        lost: Of them, those that were told before a kill and not after it, or otherwise.
        given_up: Trials that were begun and not told: what kills cost.
        different: Jobs whose trials or answers are not those of an undisturbed worker.
    """

    kills: int = 0
    connections: int = 0
    crashes: int = 0
    jobs: int = 0
    trials: int = 0
    lost: int = 0
    given_up: int = 0
    different: int = 0


def landscape(folder: Path) -> str:
    """The path of a dataset, a measurement of which is replayed in milliseconds."""
    data = gpu_landscape(seed=2, workloads=WORKLOADS, configs_per_workload=40, sms=(8, 132))
    with RecordStore(folder / "records.jsonl") as store:
        store.append(data.to_measurements())
    build_dataset([folder / "records.jsonl"], folder / "data", header=HEADER)
    return str(folder / "data")


def two_tasks(replayed: str, trials: int, size: int, seed: int = 3) -> Job:
    """A job of two tasks that are searched in turn."""
    settings = TuneSettings(replay=replayed, learn_from="nothing", seed=seed)
    weights = dict.fromkeys(WORKLOADS, 1.0)
    return JobFile(
        workloads=weights, sms=(8,), trials=trials, slice=size, rule="expected-gain", settings=settings
    ).job()


def kill_workers(kills: int, seed: int, root: Path, *, trials: int, size: int) -> Tally:
    """Submit jobs, and kill whoever works on them, so many times."""
    chance, tally, replayed = random.Random(seed), Tally(), landscape(root)
    while tally.kills < kills:
        wanted = two_tasks(replayed, trials, size, seed=tally.jobs)
        place = str(root / f"{tally.jobs}.db")
        JobStore(place).submit(wanted)
        known: dict[str, Told] = {}
        life_s = _LIFE_S
        while _is_killed(place, chance.uniform(0.0, life_s), may_be=tally.kills < kills):
            tally.kills += 1
            now = told(place)
            tally.lost += sum(now.get(name, [])[: len(trials)] != trials for name, trials in known.items())
            life_s = _LIFE_S if now != known else life_s * _LONGER
            known = now
        _compare(place, str(root / f"{tally.jobs}-undisturbed.db"), wanted, tally)
    return tally


def kill_crowd(kills: int, seed: int, root: Path, empty: Callable[[], str], *, trials: int) -> Tally:
    """Submit jobs, and kill one of several workers at once, the database, or all connections to it.

    Args:
        kills: How often.
        seed: Of who is killed, and when.
        root: Folder for what is replayed.
        empty: The place of an empty store on a PostgreSQL server.
        trials: Of each task.
    """
    chance, tally, replayed = random.Random(seed), Tally(), landscape(root)
    while tally.kills < kills:
        settings = TuneSettings(replay=replayed, learn_from="nothing", seed=tally.jobs)
        wanted = JobFile(workloads=WORKLOADS, sms=(8, 132), trials=trials, settings=settings).job()
        place = empty()
        store = JobStore(place)
        store.submit(wanted)
        crowd = [_started(place) for _ in range(_CROWD)]
        known: dict[str, Told] = {}
        life_s = _LIFE_S
        while store.show(1).state in ("waiting", "running"):
            time.sleep(chance.uniform(0.0, life_s))
            if tally.kills < kills:
                tally.kills += 1
                drawn = chance.random()
                if drawn < _CONNECTIONS:
                    tally.connections += 1
                    end_connections(place)
                elif drawn < _CONNECTIONS + _CRASHES:
                    tally.crashes += 1
                    crash(place)
                else:
                    victim = chance.choice(crowd)
                    victim.kill()
                    victim.join()
            now = told(place)
            tally.lost += sum(now.get(name, [])[: len(trials)] != trials for name, trials in known.items())
            life_s = _LIFE_S if now != known else life_s * _LONGER
            known = now
            crowd = [worker if worker.is_alive() else _started(place) for worker in crowd]
        for worker in crowd:
            worker.join()
            assert worker.exitcode in (0, -signal.SIGKILL)
        _compare(place, str(root / f"{tally.jobs}-undisturbed.db"), wanted, tally)
    return tally


def told(place: str) -> dict[str, Told]:
    """What was measured of each trial that was told, in order, by the name of the study."""
    return {
        study.study_name: [
            (tuple(sorted(trial.params.items())), trial.value) for trial in study.get_trials(states=FINISHED)
        ]
        for study in studies(place)
    }


def studies(place: str) -> list[optuna.Study]:
    """All studies of a store, by name; none while workers make the tables.

    Whoever reads makes no tables, except that of alembic's version, which Optuna makes in any case.
    """
    if "://" not in place:
        journals = sorted(Path(place).with_suffix(".studies").glob("*.journal"))
        storages = [JournalStorage(JournalFileBackend(str(path))) for path in journals]
        return [
            optuna.load_study(study_name=study.study_name, storage=each)
            for each in storages
            for study in each.get_all_studies()
        ]
    url = parse_database(place).render_as_string(hide_password=False)
    try:
        storage = optuna.storages.RDBStorage(url, skip_compatibility_check=True, skip_table_creation=True)
        names = sorted(optuna.get_all_study_names(storage))
    except (optuna.exceptions.StorageInternalError, IntegrityError, ProgrammingError):
        return []
    return [optuna.load_study(study_name=name, storage=storage) for name in names]


def work_once(place: str) -> None:
    """Do what there is to do."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    work(JobStore(place, allowed_deaths=1000), once=True)


def work_until_lost(place: str) -> None:
    """Do what there is to do, as long as the database answers."""
    with suppress(CostModelError):
        work_once(place)


def take_all(place, out):
    """Take tasks until there is none; the numbers of those that were taken."""
    store, taken = JobStore(place), []
    while lease := store.lease():
        taken.append(lease.task)
    out.send(taken)
    out.recv()  # and hold them


def _started(place: str) -> Any:
    worker = Process(target=work_until_lost, args=(place,))
    worker.start()
    return worker


def _is_killed(place: str, seconds: float, *, may_be: bool) -> bool:
    """Have a process work, and kill it after some seconds; whether it was killed before it had ended."""
    worker = Process(target=work_once, args=(place,))
    worker.start()
    worker.join(seconds if may_be else None)
    worker.kill()
    worker.join()
    assert worker.exitcode in (0, -signal.SIGKILL)
    return worker.exitcode != 0


def _compare(place: str, undisturbed: str, wanted: Job, tally: Tally) -> None:
    """Count what a job that is done cost, beside one that nobody killed."""
    JobStore(undisturbed).submit(wanted)
    work_once(undisturbed)
    expected = list(told(undisturbed).values())
    found = list(told(place).values())
    tally.jobs += 1
    tally.trials += sum(map(len, found))
    tally.given_up += sum(len(study.trials) for study in studies(place)) - sum(map(len, found))
    answers = [_answers(JobStore(each).show(1)) for each in (place, undisturbed)]
    tally.different += expected != found or answers[0] != answers[1]


def _answers(job: JobStatus) -> object:
    return job.state, [(task.best_s, task.answer, task.expected_gain) for task in job.tasks]
