"""Jobs in a database: it alone knows what is asked for, what is done, and who works on what."""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Connection, Row, String, column, insert, inspect, select, table, update
from sqlalchemy.exc import IntegrityError

from costmodel.collector._meter import MeteredStage
from costmodel.errors import CostModelError
from costmodel.files import behind_link
from costmodel.liveness import ProcessMark, user_name
from costmodel.reading import is_file
from costmodel.service import _leases as leases
from costmodel.service._database import DEVICES, JOBS, TASKS, decode_kept, explaining_failures, open_database
from costmodel.service._job import Job, decode_job, encode_json
from costmodel.service._leases import Lease
from costmodel.service._schedule import choose_lease, fail, list_jobs_in_order, settle
from costmodel.service._status import Answer, JobStatus, read_status
from costmodel.service._usage import Capacity, StageUse, read_usage, write_usage


class TaskProgress(msgspec.Struct, frozen=True):
    """Result of a slice of a task.

    Attributes:
        trials: Number of candidates of the task measured so far.
        answer: Result of the task so far.
        expected_gain: Expected improvement from another measurement, as a fraction of the best latency; None
            if no model can estimate it.
        is_done: Whether there is nothing more to measure.
    """

    trials: int
    answer: Answer
    expected_gain: float | None = None
    is_done: bool = False


class JobStore:
    """Database of jobs, their tasks and their workers, which any number of processes can share.

    Workers and submitters may start, stop and be killed at any moment: their state is in this store, in the
    studies next to it, and in the record stores of measurements.

    Args:
        place: A path that ends in ``.db`` for SQLite (one machine), or a URL as SQLAlchemy takes it, such as
            ``postgresql://host/name`` (several machines, whose clocks agree within seconds).
        allowed_deaths: Number of workers that may die in a row on a task, before they measured anything,
            until the task fails.
        quota_s: Seconds of workers that a submitter may have in a day; then the submitter's jobs wait. None
            for no limit. It binds the workers that lease from this object.
        clock: Returns the time in seconds since the epoch.
        create: Create a missing database file.

    Attributes:
        place: Path or URL of the store.

    Raises:
        CostModelError: If the store cannot be opened, or its file is missing and not to be created.

    Example:
        >>> import tempfile
        >>> from costmodel.service import JobFile
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
        quota_s: float | None = None,
        clock: Callable[[], float] = time.time,
        create: bool = True,
    ) -> None:
        self.place, self._allowed_deaths, self._clock = place, allowed_deaths, clock
        self._quota_s = quota_s
        self._engine = open_database(place, create=create)

    def submit(self, job: Job, *, submitter: str | None = None, priority: int = 100) -> int:
        """Store a job for workers.

        Args:
            job: The job.
            submitter: Who submits the job. Submitters share the workers fairly. Default: the current user.
            priority: Jobs of higher priority come first.

        Returns:
            Id of the job.

        Raises:
            CostModelError: If the job is invalid.
        """
        job.check()
        values = {
            "key": secrets.token_hex(4),
            "name": job.name,
            "submitter": submitter or user_name(),
            "priority": priority,
            "submitted_at": self._clock(),
            "runner": job.runner,
            "rule": job.rule,
            "total": job.total,
            "slice": job.largest_slice,
            "specification": encode_json(job),
        }
        with self._changing() as connection:
            id_ = connection.scalar(insert(JOBS).values(values).returning(JOBS.c.id))
            rows = [
                {"job": id_, "position": position, "name": task.name, "weight": task.weight, "state": "open"}
                for position, task in enumerate(job.tasks)
            ]
            connection.execute(insert(TASKS), rows)
            ids = connection.scalars(select(TASKS.c.id).where(TASKS.c.job == id_).order_by(TASKS.c.position))
            named = [
                {"task": task, "device": device}
                for task, device in zip(ids, job.devices, strict=True)
                if device
            ]
            if named:
                connection.execute(insert(DEVICES), named)
        return int(id_ or 0)

    def list(self) -> tuple[JobStatus, ...]:
        """Return all jobs, the newest first."""
        with self._reading() as connection:
            rows = connection.execute(select(JOBS).order_by(JOBS.c.id.desc())).all()
            return tuple(read_status(connection, row, self._clock()) for row in rows)

    def show(self, id_: int) -> JobStatus:
        """Return the status of a job.

        Raises:
            CostModelError: If no job has this id.
        """
        with self._reading() as connection:
            return read_status(connection, self._row(connection, id_), self._clock())

    def job(self, id_: int) -> Job:
        """Return the specification of a job.

        Raises:
            CostModelError: If no job has this id, or its stored specification is invalid.
        """
        with self._reading() as connection:
            row = self._row(connection, id_)
        return decode_job(row.specification, f"Job {id_} ({row.name}) of {self.place}")

    def cancel(self, id_: int) -> None:
        """Cancel a job. Its workers stop after the measurement in progress.

        Raises:
            CostModelError: If no job has this id, or it has ended.
        """
        if (state := self.show(id_).state) not in ("waiting", "running"):
            raise CostModelError(
                f"A job must be waiting or running to be cancelled, but job {id_} is {state}."
            )
        with self._changing() as connection:
            connection.execute(update(JOBS).where(JOBS.c.id == id_).values(cancelled_at=self._clock()))

    def study_place(self, lease: Lease) -> str:
        """Return where the study of a task is: in a database of several machines, else in a journal beside.

        Whoever writes to a SQLite database keeps all others waiting, and a search writes at every trial. One
        that 0.3 began there goes on there.
        """
        url = self._engine.url
        if url.get_backend_name() != "sqlite" or not is_file(url.database or "") or self._has_study(lease):
            return self.place
        file = behind_link(Path(str(url.database)))
        return str(file.with_suffix(".studies") / f"{lease.key}.journal")

    def _has_study(self, lease: Lease) -> bool:
        """Whether Optuna keeps a study of a task in the database itself."""
        with self._reading() as connection:
            names = column("study_name", String)
            named = select(names).select_from(table("studies")).where(names.startswith(f"{lease.key}-"))
            return inspect(connection).has_table("studies") and bool(connection.scalar(named.limit(1)))

    def lease(
        self, *, runner: str | None = None, device: str | None = None, gpu: str | None = None
    ) -> Lease | None:
        """Lease the next task to this process; return None if there is none now.

        The order is: jobs of the highest priority; among them those of the submitter who had the least worker
        time in the last day, and less than the quota; of these the oldest job; and of its tasks the one that
        the job's rule chooses.

        Args:
            runner: Take only jobs that are measured by this runner. Default: any.
            device: Take only tasks for this device, and those that name none. Default: any.
            gpu: The GPU here, where it is known. It stands for ``device`` in jobs that measure on a GPU, and
                does not concern others, such as replays.
        """
        with explaining_failures(self.place):
            while (lease := self._next(runner, device, gpu)) is not None:
                with suppress(IntegrityError), self._engine.begin() as connection:
                    leases.claim_task(connection, lease, ProcessMark.own(), self._clock())
                    return lease
        return None

    def renew(self, lease: Lease, made: int) -> bool:
        """Extend a lease.

        Args:
            lease: The lease.
            made: Number of candidates measured under it.

        Returns:
            Whether the worker still has the task and the job is still wanted. If not, the worker should stop.
        """
        with self._changing() as connection:
            return leases.renew(connection, lease, made, self._clock())

    def end(self, lease: Lease, progress: TaskProgress | None = None) -> None:
        """Release a task, with the result of its slice, or with none if the slice was interrupted.

        Raises:
            LeaseLostError: If another worker has taken the task.
        """
        with self._changing() as connection:
            leases.end(connection, lease, self._clock())
            if progress is None:
                return
            best = connection.scalar(select(TASKS.c.best_s).where(TASKS.c.id == lease.task))
            known: list[float] = decode_kept(best or "[]", list[float])
            found = [] if progress.answer.latency_s is None else [progress.answer.latency_s]
            values = {
                "trials": progress.trials,
                "best_s": encode_json([*known, *found]),
                "expected_gain": progress.expected_gain,
                "answer": encode_json(progress.answer),
                "state": "done" if progress.is_done else "open",
            }
            connection.execute(update(TASKS).where(TASKS.c.id == lease.task).values(values))
            settle(connection, lease.job, self._allowed_deaths, self._clock())

    def fail(self, lease: Lease, reason: str) -> None:
        """Mark a task as failed. The other tasks of its job go on.

        Raises:
            LeaseLostError: If another worker has taken the task.
        """
        with self._changing() as connection:
            leases.end(connection, lease, self._clock())
            fail(connection, lease.task, reason)

    def served_s(self) -> dict[str, float]:
        """Return the seconds of worker time that each submitter has had."""
        with self._reading() as connection:
            return leases.count_served_s(connection, 0.0, self._clock())

    def report_usage(self, capacities: Mapping[MeteredStage, Capacity] | None = None) -> None:
        """Store how busy this process was so far.

        Args:
            capacities: What it has of a stage. Default: one place of each.
        """
        with self._changing() as connection:
            write_usage(connection, capacities or {}, self._clock())

    def usage(self, seconds: float = 60.0, parts: int = 30) -> Sequence[StageUse]:
        """Return how busy builders, devices and workers were in the last seconds, in equal parts."""
        with self._reading() as connection:
            return read_usage(connection, seconds, parts, self._clock())

    def _next(self, runner: str | None, device: str | None, gpu: str | None) -> Lease | None:
        """The task that is next, as a lease to claim."""
        now = self._clock()
        with self._reading() as connection:
            jobs = list_jobs_in_order(connection, runner, self._quota_s, now)
        for job in jobs:
            with self._changing() as connection:
                settle(connection, job.id, self._allowed_deaths, now)
                measures = gpu or device if job.runner == "cuda" else device
                if lease := choose_lease(connection, job, now, measures):
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
        with explaining_failures(self.place), self._engine.connect() as connection:
            yield connection

    @contextmanager
    def _changing(self) -> Iterator[Connection]:
        with explaining_failures(self.place), self._engine.begin() as connection:
            yield connection
