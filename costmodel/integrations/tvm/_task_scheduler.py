"""MetaSchedule's task scheduler that outlives tasks which TVM's rules fail on."""

from collections.abc import Sequence
from typing import Any

from tvm.s_tir import meta_schedule as ms

from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.integrations.tvm._program import announce, target_kind


class TaskScheduler(ms.task_scheduler.GradientBased):  # type: ignore[misc]
    """Stock's scheduler, which leaves out tasks without a design space.

    MetaSchedule collects the design spaces of all tasks before it searches the first, and an operator that
    its rules take for another ends the tuning there (``nn.attention`` on a GPU, an array without elements).
    Here such a task is named on stderr and stays as it is; the others are tuned.
    """

    def tune(self, tasks: Sequence[Any], task_weights: Sequence[float], **settings: Any) -> None:
        """Tune tasks; see ``tvm.s_tir.meta_schedule.TaskScheduler.tune``.

        Raises:
            CostModelError: A task is for another kind of device than that of the runner, if that is ours.
            Exception: What MetaSchedule raises, unless a design space is the reason, or if no task has one.
        """
        _refuse_other_targets(tasks, settings.get("runner"))
        try:
            super().tune(tasks, task_weights, **settings)
        except Exception:
            # Most networks have no such task, so that it is looked for where there is one only.
            able = [_has_design_space(task) for task in tasks]
            if all(able) or not any(able):
                raise
            kept = [at for at, is_able in enumerate(able) if is_able]
            # A search that has begun cannot begin again: that of a copy can.
            copies, weights = [tasks[at].clone() for at in kept], [task_weights[at] for at in kept]
            ms.task_scheduler.GradientBased().tune(copies, weights, **settings)


def _refuse_other_targets(tasks: Sequence[Any], runner: Any) -> None:
    """Refuse at once what would be refused after a batch was built."""
    platform = getattr(runner, "platform", None)  # which runners of TVM do not have
    if platform is None:
        return
    device = platform.device
    for task in tasks:
        if target_kind(task.target) != device.kind:
            raise CostModelError(
                f"Tasks must be for {device.kind}, as {device.name} is, which the runner measures on, but "
                f"{task.task_name} is for {task.target.kind.name}. Tune for another target, or make the "
                "options with another kind."
            )


def _has_design_space(task: Any) -> bool:
    """Whether TVM's rules give a task a design space; says so if they fail."""
    try:
        task.generate_design_space()
    except Exception as error:  # noqa: BLE001 (TVM raises its own error types, and its rules any)
        announce(str(task.task_name), f"stays as it is: TVM's rules fail on it ({last_line(error)})")
        return False
    return True
