"""Results as they come, and those of the two references."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.evaluation._few_shot import FewShot, Fixed, measure_at_random, measure_in_turn
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE, TestedTask, judge, judge_random
from costmodel.learners._base import Prediction


@dataclass
class Results:
    """Rows of a report's tables, as they come."""

    tasks: list[dict[str, Any]] = field(default_factory=list)
    shots: list[dict[str, Any]] = field(default_factory=list)

    def add(self, learner: str, run: int, task: TestedTask, result: dict[str, Any]) -> None:
        """Add what was found of a task without measurements."""
        self.tasks.append({"learner": learner, "run": run, **task.facts, **result})

    def add_shots(self, learner: str, run: int, task: TestedTask, results: Iterable[dict[str, Any]]) -> None:
        """Add what was found of a task after each number of measurements."""
        self.shots += ({"learner": learner, "run": run, **task.facts, **result} for result in results)

    def add_references(
        self, tasks: Sequence[TestedTask], whole_s: FloatArray, few_shot: FewShot | None, draws: FloatArray
    ) -> None:
        """Add both references; the whole device's choice may know measurements that no learner has.

        Args:
            tasks: Those of a fold.
            whole_s: ``(n,)`` latency of each tested row's candidate on the whole device; inf if not measured.
            few_shot: How tasks are measured; None if they are not.
            draws: ``(n,)`` numbers by which the tested rows are drawn, see ``measure_in_turn``.
        """
        has_parts = not all(task.facts["whole_device"] for task in tasks)
        for task in tasks:
            self._add_random(task, few_shot)
            if has_parts and np.isfinite(whole_s[task.at]).any():
                by_whole = Fixed(Prediction(-whole_s[task.at]))
                self._add_whole_device(task, by_whole, few_shot, draws[task.at])

    def _add_random(self, task: TestedTask, few_shot: FewShot | None) -> None:
        self.add(RANDOM, 0, task, judge_random(task.latency_s))
        if few_shot:
            self.add_shots(RANDOM, 0, task, measure_at_random(task.latency_s, few_shot))

    def _add_whole_device(
        self, task: TestedTask, by_whole: Fixed, few_shot: FewShot | None, draws: FloatArray
    ) -> None:
        self.add(WHOLE_DEVICE, 0, task, judge(by_whole.prediction, task.latency_s))
        if few_shot:
            blank = np.zeros((task.at.size, 0))
            turns = measure_in_turn(
                by_whole, by_whole.adapt, blank, task.latency_s, plan=few_shot, draws=draws
            )
            self.add_shots(WHOLE_DEVICE, 0, task, turns)


def table_of(results: list[dict[str, Any]], learners: Sequence[str]) -> pd.DataFrame:
    """One row a result, learner by learner in this order."""
    table = pd.DataFrame(results)
    if table.empty:
        return table
    place = {name: i for i, name in enumerate(learners)}
    return table.iloc[np.argsort(table["learner"].map(place), kind="stable")].reset_index(drop=True)
