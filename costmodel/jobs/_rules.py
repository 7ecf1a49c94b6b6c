"""Which task of a job gets the next measurements, by what is known of each."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

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
