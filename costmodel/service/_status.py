"""Status of jobs."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from sqlalchemy import Connection, Row

from costmodel.records._candidate import Candidate
from costmodel.service._database import decode_kept
from costmodel.service._leases import TaskLeases, worker_name
from costmodel.service._schedule import query_tasks

_TaskState = Literal["open", "done", "failed"]
_JobState = Literal["waiting", "running", "done", "failed", "cancelled"]


class Answer(msgspec.Struct, frozen=True):
    """Result of a task.

    Attributes:
        sentences: What to run and how it compares, or what was measured.
        latency_s: Latency of the kernel, in seconds; None for a campaign.
        candidate: The kernel; None for a campaign.
    """

    sentences: tuple[str, ...]
    latency_s: float | None = None
    candidate: Candidate | None = None


class TaskStatus(msgspec.Struct, frozen=True):
    """Status of a task of a job.

    Attributes:
        name: Name of the task.
        weight: Number of calls of the task in the whole.
        state: Whether the task is open, done or failed.
        trials: Number of candidates measured, without those of an unfinished slice.
        best_s: Best latency after each slice, in seconds.
        expected_gain: See ``costmodel.service.TaskProgress``.
        worker: Host and process of the current worker; None if there is none.
        leases: Number of times that a worker took the task.
        deaths: Number of those workers that died on the task, or were lost.
        answer: Result so far; None if there is none.
        error: Why the task failed; empty if it did not.
    """

    name: str
    weight: float
    state: _TaskState
    trials: int
    best_s: tuple[float, ...]
    expected_gain: float | None
    worker: str | None
    leases: int
    deaths: int
    answer: Answer | None
    error: str


class JobStatus(msgspec.Struct, frozen=True):
    """Status of a job.

    Attributes:
        id: Number of the job in the store.
        name: Name of the job.
        submitter: Who submitted the job.
        priority: Jobs of higher priority come first.
        rule: Rule that distributes measurements among the job's tasks.
        runner: Where measurements are made.
        submitted_at: Time of submission, in seconds since the epoch.
        state: State of the job.
        total: Total number of candidates to measure; 0 for a campaign.
        tasks: Status of each task.
    """

    id: int
    name: str
    submitter: str
    priority: int
    rule: str
    runner: str
    submitted_at: float
    state: _JobState
    total: int
    tasks: tuple[TaskStatus, ...]

    @property
    def trials(self) -> int:
        """Number of candidates measured, over all tasks."""
        return sum(task.trials for task in self.tasks)

    @property
    def latency_s(self) -> float | None:
        """Total latency of all calls of all tasks, in seconds; None as long as a task has no kernel."""
        found = [task.weight * task.best_s[-1] for task in self.tasks if task.best_s]
        return sum(found) if len(found) == len(self.tasks) else None


def read_status(connection: Connection, job: Row[Any], now: float) -> JobStatus:
    """A job by its row."""
    rows = connection.execute(query_tasks(job.id)).all()
    leases = TaskLeases.of(connection, [task.id for task in rows], now)
    tasks = tuple(_task_status(task, leases[task.id]) for task in rows)
    return JobStatus(
        id=job.id,
        name=job.name,
        submitter=job.submitter,
        priority=job.priority,
        rule=job.rule,
        runner=job.runner,
        submitted_at=job.submitted_at,
        state=_job_state(job, tasks),
        total=job.total,
        tasks=tasks,
    )


def _task_status(task: Row[Any], leases: TaskLeases) -> TaskStatus:
    return TaskStatus(
        name=task.name,
        weight=task.weight,
        state=task.state,
        trials=task.trials,
        best_s=decode_kept(task.best_s, tuple[float, ...]),
        expected_gain=task.expected_gain,
        worker=worker_name(leases.held.worker) if leases.held else None,
        leases=leases.count,
        deaths=leases.deaths,
        answer=task.answer and decode_kept(task.answer, Answer),
        error=task.error or "",
    )


def _job_state(job: Row[Any], tasks: Sequence[TaskStatus]) -> _JobState:
    if job.cancelled_at is not None:
        return "cancelled"
    states = {task.state for task in tasks}
    if "open" in states:
        return "running" if any(task.worker for task in tasks) else "waiting"
    return "failed" if "failed" in states else "done"
