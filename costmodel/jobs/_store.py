"""Jobs in a database: it alone knows what is asked for, what is done, and who works on what."""

import getpass
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, insert, select, update
from sqlalchemy.exc import IntegrityError

from costmodel.errors import CostModelError
from costmodel.jobs import _ledger as ledger
from costmodel.jobs._database import JOBS, TASKS, open_database, told_as_one_sentence
from costmodel.jobs._job import Job, decoded, encoded
from costmodel.jobs._ledger import Lease
from costmodel.jobs._schedule import fail, jobs_in_order, next_lease, settle
from costmodel.jobs._status import Answer, JobStatus, read_status
from costmodel.processes import ProcessMark


class Progress(msgspec.Struct, frozen=True):
    """What a slice of a task came to.

    Attributes:
        trials: Candidates that are measured of the task by now.
        answer: What was found.
        expected_gain: By which share of the best latency the model expects another measurement to improve on
            it; None where no model can tell.
        is_done: Whether there is nothing more to measure.
    """

    trials: int
    answer: Answer
    expected_gain: float | None = None
    is_done: bool = False


class JobStore:
    """Jobs, their tasks and who works on them, in a database that any number of processes share.

    Workers and submitters may come and go, and be killed at any moment: what they need is here, in the
    studies beside it, and in the record stores of measurements.

    Args:
        place: A path that ends in ``.db`` for SQLite (one machine), or a URL as SQLAlchemy takes it, such as
            ``postgresql://host/name`` (several machines, whose clocks agree within seconds).
        allowed_deaths: A task fails that so many workers in a row died of, before they measured anything.
        clock: Seconds since the epoch.
        create: Make the file of a path where there is none.

    Attributes:
        place: The same.

    Raises:
        CostModelError: It cannot be opened, or is a file that is not there or made.

    Example:
        >>> import tempfile
        >>> from costmodel.jobs import JobFile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     store = JobStore(f"{folder}/jobs.db")
        ...     id_ = store.submit(JobFile(workloads=("matmul-m64-n64-k64",), trials=4).job())
        ...     store.show(id_).state
        'waiting'
    """

    def __init__(
        self,
        place: str,
        *,
        allowed_deaths: int = 3,
        clock: Callable[[], float] = time.time,
        create: bool = True,
    ) -> None:
        self.place, self._allowed_deaths, self._clock = place, allowed_deaths, clock
        self._engine = open_database(place, create=create)

    def submit(self, job: Job, *, submitter: str | None = None, priority: int = 100) -> int:
        """Store a job, for workers to do.

        Args:
            job: What is asked for.
            submitter: Whose it is, this user's unless given; submitters share the workers fairly.
            priority: Jobs of a higher one come first.

        Returns:
            Its id.

        Raises:
            CostModelError: The job is not sound.
        """
        job.check()
        values = {
            "key": secrets.token_hex(4),
            "name": job.name,
            "submitter": submitter or getpass.getuser(),
            "priority": priority,
            "submitted_at": self._clock(),
            "runner": job.runner,
            "rule": job.rule,
            "total": job.total,
            "slice": job.largest_slice,
            "specification": encoded(job),
        }
        with self._changing() as connection:
            id_ = connection.scalar(insert(JOBS).values(values).returning(JOBS.c.id))
            rows = [
                {"job": id_, "position": position, "name": task.name, "weight": task.weight, "state": "open"}
                for position, task in enumerate(job.tasks)
            ]
            connection.execute(insert(TASKS), rows)
        return int(id_ or 0)

    def list(self) -> tuple[JobStatus, ...]:
        """All jobs, the newest first."""
        with self._reading() as connection:
            rows = connection.execute(select(JOBS).order_by(JOBS.c.id.desc())).all()
            return tuple(read_status(connection, row, self._clock()) for row in rows)

    def show(self, id_: int) -> JobStatus:
        """A job.

        Raises:
            CostModelError: There is none of this id.
        """
        with self._reading() as connection:
            return read_status(connection, self._row(connection, id_), self._clock())

    def job(self, id_: int) -> Job:
        """What a job asks for.

        Raises:
            CostModelError: There is none of this id, or what is stored of it is no job.
        """
        with self._reading() as connection:
            row = self._row(connection, id_)
        return decoded(row.specification, f"Job {id_} ({row.name}) of {self.place}")

    def cancel(self, id_: int) -> None:
        """Have a job done no further; workers that are at it stop after the measurement in flight.

        Raises:
            CostModelError: There is none of this id, or it has ended.
        """
        if (state := self.show(id_).state) not in ("waiting", "running"):
            raise CostModelError(
                f"A job must be waiting or running to be cancelled, but job {id_} is {state}."
            )
        with self._changing() as connection:
            connection.execute(update(JOBS).where(JOBS.c.id == id_).values(cancelled_at=self._clock()))

    def lease(self, *, runner: str | None = None) -> Lease | None:
        """Take the task that is next, for this process; None where there is none now.

        Jobs of the highest priority come first, among these the submitter who had least of the workers' time
        in the last day, of his jobs the oldest, and of its tasks the one that the job's rule names.

        Args:
            runner: Only of jobs that this measures; of any unless given.
        """
        with told_as_one_sentence(self.place):
            while (lease := self._next(runner)) is not None:
                with suppress(IntegrityError), self._engine.begin() as connection:
                    ledger.claim(connection, lease, ProcessMark.own(), self._clock())
                    return lease
        return None

    def renew(self, lease: Lease, made: int) -> bool:
        """Hold a task for longer.

        Args:
            lease: The lease.
            made: Candidates that were measured under it.

        Returns:
            Whether the task is still the worker's and its job wanted; if not, he should stop.
        """
        with self._changing() as connection:
            return ledger.renew(connection, lease, made, self._clock())

    def end(self, lease: Lease, progress: Progress | None = None) -> None:
        """Let go of a task, with what its slice came to, or with nothing where it was left in between.

        Raises:
            LeaseLostError: Another worker took it meanwhile.
        """
        with self._changing() as connection:
            ledger.end(connection, lease, self._clock())
            if progress is None:
                return
            best = connection.scalar(select(TASKS.c.best_s).where(TASKS.c.id == lease.task))
            known = msgspec.json.decode(best or "[]", type=list[float])
            found = [] if progress.answer.latency_s is None else [progress.answer.latency_s]
            values = {
                "trials": progress.trials,
                "best_s": encoded([*known, *found]),
                "expected_gain": progress.expected_gain,
                "answer": encoded(progress.answer),
                "state": "done" if progress.is_done else "open",
            }
            connection.execute(update(TASKS).where(TASKS.c.id == lease.task).values(values))
            settle(connection, lease.job, self._allowed_deaths, self._clock())

    def fail(self, lease: Lease, reason: str) -> None:
        """Give a task up; the other tasks of its job go on.

        Raises:
            LeaseLostError: Another worker took it meanwhile.
        """
        with self._changing() as connection:
            ledger.end(connection, lease, self._clock())
            fail(connection, lease.task, reason)

    def served_s(self) -> dict[str, float]:
        """Seconds that workers had tasks of each submitter."""
        with self._reading() as connection:
            return ledger.served_s(connection, 0.0, self._clock())

    def _next(self, runner: str | None) -> Lease | None:
        """The task that is next, as a lease to claim."""
        now = self._clock()
        with self._reading() as connection:
            jobs = jobs_in_order(connection, runner, now)
        for job in jobs:
            with self._changing() as connection:
                settle(connection, job.id, self._allowed_deaths, now)
                if lease := next_lease(connection, job, now):
                    return lease
        return None

    def _row(self, connection: Connection, id_: int) -> Row[Any]:
        row = connection.execute(select(JOBS).where(JOBS.c.id == id_)).one_or_none()
        if row is None:
            raise CostModelError(
                f"A job must be one of {self.place}, but there is none with the id {id_}. "
                "`costmodel jobs list` lists them."
            )
        return row

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
        with told_as_one_sentence(self.place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with told_as_one_sentence(self.place), self._engine.begin() as connection:
            yield connection
