"""Which task gets the next measurements: the order of jobs, and the rule of a job among its tasks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Row, exists, select, update

from costmodel.records._device_table import is_device
from costmodel.service._database import DEVICES, JOBS, TASKS, decode_kept
from costmodel.service._leases import Lease, TaskLeases, count_served_s

# Of MetaSchedule's GradientBased: weight of what was gained of late, and over how many slices.
_ALPHA, _WINDOW = 0.2, 3


@dataclass(frozen=True)
class TaskState:
    """What a rule knows about a task.

    Attributes:
        weight: Number of calls of the task in the whole.
        trials: Number of candidates that were measured or are being measured.
        best_s: Best latency after each slice, in seconds.
        expected_gain: Expected improvement from the next measurement, as a fraction of the best latency; None
            if no model can estimate it.
    """

    weight: float
    trials: int
    best_s: tuple[float, ...]
    expected_gain: float | None = None


Rule = Callable[[Sequence[TaskState]], int]


def round_robin(tasks: Sequence[TaskState]) -> int:
    """The task with the fewest trials; of several the first."""
    return min(range(len(tasks)), key=lambda i: tasks[i].trials)


def gradient(tasks: Sequence[TaskState]) -> int:
    """The task whose weighted latency falls fastest, as MetaSchedule's ``GradientBased`` estimates it.

    A fifth of the estimate is what the last three slices gained each, the rest the latency over the number of
    slices. Source: Zheng et al., "Ansor", OSDI 2020, section 6, as in TVM's ``gradient_based.cc``. Ties go to
    the first task, where TVM draws one.
    """
    return _largest(tasks, _gradient)


def expected_gain(tasks: Sequence[TaskState]) -> int:
    """The task whose next measurement the model expects to take most off the weighted latency.

    Where no model can tell, what the last slices gained stands for it.
    """
    return _largest(tasks, _expected)


RULES: Mapping[str, Rule] = {
    "round-robin": round_robin,
    "gradient": gradient,
    "expected-gain": expected_gain,
}


def _largest(tasks: Sequence[TaskState], gain: Callable[[TaskState], float]) -> int:
    """The first task that has no slice yet, else the one with the largest weighted gain."""
    begun = [bool(task.trials) for task in tasks]
    if not all(begun):
        return begun.index(False)
    return max(range(len(tasks)), key=lambda i: tasks[i].weight * gain(tasks[i]))


def _gradient(task: TaskState) -> float:
    if not task.best_s:  # its first slice is being measured
        return 0.0
    return _ALPHA * _lately(task) + (1.0 - _ALPHA) * task.best_s[-1] / len(task.best_s)


def _expected(task: TaskState) -> float:
    if not task.best_s or task.expected_gain is None:
        return _lately(task)
    return task.expected_gain * task.best_s[-1]


def _lately(task: TaskState) -> float:
    """Seconds that each of the last slices gained."""
    if len(task.best_s) <= _WINDOW:
        return 0.0
    return (task.best_s[-1 - _WINDOW] - task.best_s[-1]) / _WINDOW


# Of what workers did for each submitter, what is longer ago than a day does not count.
_FAIR_OVER_S = 86_400.0


def list_jobs_in_order(
    connection: Connection, runner: str | None, quota_s: float | None, now: float
) -> list[Row[Any]]:
    """The jobs that are not done, the one whose turn it is first.

    Args:
        connection: Of the database.
        runner: Only those that this measures; all if None.
        quota_s: Only those of submitters who had fewer seconds of workers of late; all if None.
        now: Seconds since the epoch.
    """
    is_open = exists().where(TASKS.c.job == JOBS.c.id, TASKS.c.state == "open")
    wanted = [JOBS.c.cancelled_at.is_(None), is_open, *([] if runner is None else [JOBS.c.runner == runner])]
    jobs = connection.execute(select(JOBS).where(*wanted)).all()
    served = count_served_s(connection, now - _FAIR_OVER_S, now) if jobs else {}
    if quota_s is not None:
        jobs = [job for job in jobs if served.get(job.submitter, 0.0) < quota_s]
    return sorted(jobs, key=lambda job: (-job.priority, served.get(job.submitter, 0.0), job.id))


def choose_lease(
    connection: Connection, job: Row[Any], now: float, device: str | None = None
) -> Lease | None:
    """The task of a job that is next, as a lease to claim; None where all are done or in somebody's hands.

    Args:
        connection: Of the database.
        job: Row of the job.
        now: Seconds since the epoch.
        device: What measures; tasks for others are left to others. None for any.
    """
    tasks = connection.execute(query_tasks(job.id)).all()
    leases = TaskLeases.of(connection, [task.id for task in tasks], now)
    asked = {task.id: held.trials for task in tasks if (held := leases[task.id].held)}
    for total, group in _by_device(job.total, tasks):
        wanted = group[0].device
        if wanted and device and not is_device(wanted, device):
            continue
        left = total - _spent(total, group, asked)
        free = [task for task in group if task.state == "open" and task.id not in asked]
        if not free or (total and left <= 0):
            continue
        task = free[RULES[job.rule]([_state_of(each) for each in free])]
        trials = task.trials + min(job.slice, left) if total else 0
        key = f"job-{job.id}-{job.key}-{task.position}"
        return Lease(task.id, leases[task.id].count, job.id, key, task.position, trials)
    return None


def settle(connection: Connection, job: int, allowed_deaths: int, now: float) -> None:
    """Close the tasks of a job of which enough is measured, and give up those that workers die of."""
    total = connection.scalar(select(JOBS.c.total).where(JOBS.c.id == job)) or 0
    open_: list[int] = []
    for share, group in _by_device(total, connection.execute(query_tasks(job)).all()):
        of_group = [task.id for task in group if task.state == "open"]
        if share and _spent(share, group, {}) >= share:
            connection.execute(update(TASKS).where(TASKS.c.id.in_(of_group)).values(state="done"))
        else:
            open_ += of_group
    for task, leases in TaskLeases.of(connection, open_, now).items():
        if leases.deaths_in_vain >= allowed_deaths:
            fail(connection, task, f"{allowed_deaths} workers died on it before they measured anything.")


def fail(connection: Connection, task: int, reason: str) -> None:
    """Give a task up."""
    connection.execute(update(TASKS).where(TASKS.c.id == task).values(state="failed", error=reason))


def query_tasks(job: int) -> Any:
    """The query for the tasks of a job, in order, with the devices that they name."""
    named = select(TASKS, DEVICES.c.device).outerjoin(DEVICES, DEVICES.c.task == TASKS.c.id)
    return named.where(TASKS.c.job == job).order_by(TASKS.c.position)


def _by_device(total: int, tasks: Sequence[Row[Any]]) -> list[tuple[int, list[Row[Any]]]]:
    """The tasks for each device, with their share of all candidates: none measures for another."""
    groups: dict[str | None, list[Row[Any]]] = {}
    for task in tasks:
        groups.setdefault(task.device, []).append(task)
    return [(total * len(group) // len(tasks), group) for group in groups.values()]


def _state_of(task: Row[Any]) -> TaskState:
    best_s: tuple[float, ...] = decode_kept(task.best_s, tuple[float, ...])
    return TaskState(task.weight, task.trials, best_s, task.expected_gain)


def _spent(total: int, tasks: Sequence[Row[Any]], asked: Mapping[int, int]) -> int:
    """Candidates of a job that are measured or in somebody's hands; what failed had its share of them."""
    share = total // max(1, len(tasks))
    failed = {task.id: share for task in tasks if task.state == "failed"}
    return sum(max(task.trials, asked.get(task.id, 0), failed.get(task.id, 0)) for task in tasks)
