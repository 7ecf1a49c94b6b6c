"""Leases of tasks to workers; they are renewed, and expire when a worker dies."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, Self

import msgspec
from sqlalchemy import Connection, Row, exists, func, insert, select, update

from costmodel.errors import CostModelError
from costmodel.liveness import ProcessMark
from costmodel.service._database import JOBS, LEASES, TASKS, decode_kept

# A lease holds so long unless it is renewed; a worker of the same host that is gone has none at once.
LEASE_S = 120.0


class LeaseLostError(CostModelError):
    """A worker no longer has its task: the job was cancelled, or another worker took the task."""


class Lease(msgspec.Struct, frozen=True):
    """Lease of a task to a worker.

    Attributes:
        task: Id of the task.
        number: Number of earlier leases of the task.
        job: Id of the job.
        key: Unique name of the task's study and records.
        position: Position of the task in its job.
        trials: Number of candidates of the task to have measured when the lease ends; 0 for a campaign.
    """

    task: int
    number: int
    job: int
    key: str
    position: int
    trials: int


class TaskLeases:
    """The leases that a task had, the last of which may hold.

    Args:
        rows: Rows of ``LEASES``, by number.
        now: Seconds since the epoch.
    """

    def __init__(self, rows: Sequence[Row[Any]], now: float) -> None:
        self._rows, self._now = rows, now

    @classmethod
    def of(cls, connection: Connection, tasks: Iterable[int], now: float) -> dict[int, Self]:
        """Those of some tasks, by task."""
        wanted = list(tasks)
        rows = connection.execute(select(LEASES).where(LEASES.c.task.in_(wanted)).order_by(LEASES.c.number))
        found: dict[int, list[Row[Any]]] = {task: [] for task in wanted}
        for row in rows:
            found[row.task].append(row)
        return {task: cls(leases, now) for task, leases in found.items()}

    @property
    def count(self) -> int:
        """How many there were."""
        return len(self._rows)

    @property
    def held(self) -> Row[Any] | None:
        """The lease that holds; None if none does."""
        if not self._rows or self._rows[-1].ended is not None:
            return None
        last = self._rows[-1]
        return last if _mark(last.worker).holds(last.until, now=self._now) else None

    @property
    def deaths(self) -> int:
        """Leases that no worker ended."""
        return sum(row.ended is None for row in self._rows) - (self.held is not None)

    @property
    def deaths_in_vain(self) -> int:
        """The last leases in a row whose workers died before they measured anything."""
        past = self._rows[:-1] if self.held else self._rows
        in_vain = [row.ended is None and not row.made for row in past]
        return next((i for i, died in enumerate(reversed(in_vain)) if not died), len(in_vain))


def count_served_s(connection: Connection, since: float, now: float) -> dict[str, float]:
    """Count the seconds of workers that each submitter had of late."""
    end = func.coalesce(LEASES.c.ended, LEASES.c.until)
    rows = connection.execute(
        select(JOBS.c.submitter, LEASES.c.begun, end)
        .join(TASKS, TASKS.c.job == JOBS.c.id)
        .join(LEASES, LEASES.c.task == TASKS.c.id)
        .where(end > since)
    )
    served: dict[str, float] = {}
    for submitter, begun, ended in rows:
        served[submitter] = served.get(submitter, 0.0) + min(ended, now) - max(begun, since)
    return served


def claim_task(connection: Connection, lease: Lease, worker: ProcessMark, now: float) -> None:
    """Take a task.

    Raises:
        IntegrityError: Another worker was ahead.
    """
    connection.execute(
        insert(LEASES).values(
            task=lease.task,
            number=lease.number,
            worker=msgspec.json.encode(asdict(worker)).decode(),
            begun=now,
            until=now + LEASE_S,
            trials=lease.trials,
        )
    )


def renew(connection: Connection, lease: Lease, made: int, now: float) -> bool:
    """Hold a task for longer; whether the worker still has it and its job is wanted."""
    changed = connection.execute(
        update(LEASES).where(*_is_last(lease)).values(until=now + LEASE_S, made=made)
    )
    cancelled = connection.scalar(select(JOBS.c.cancelled_at).where(JOBS.c.id == lease.job))
    return changed.rowcount == 1 and cancelled is None


def end(connection: Connection, lease: Lease, now: float) -> None:
    """Let go of a task.

    Raises:
        LeaseLostError: Another worker took it.
    """
    if connection.execute(update(LEASES).where(*_is_last(lease)).values(ended=now)).rowcount != 1:
        raise LeaseLostError(
            f"A worker must renew its lease in time, but another took task {lease.position} of job "
            f"{lease.job}. Its measurements are kept."
        )


def worker_name(worker: str) -> str:
    """Host and process of a worker as it is stored."""
    mark = _mark(worker)
    return f"{mark.host}:{mark.pid}"


def _is_last(lease: Lease) -> tuple[Any, ...]:
    """Conditions on the row of a lease: it was not ended, and none follows it."""
    later = LEASES.alias()
    follows = exists().where(later.c.task == lease.task, later.c.number > lease.number)
    return LEASES.c.task == lease.task, LEASES.c.number == lease.number, LEASES.c.ended.is_(None), ~follows


def _mark(worker: str) -> ProcessMark:
    return decode_kept(worker, ProcessMark)
