"""What an evaluation found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.evaluation._few_shot import FewShot
from costmodel.evaluation._judge import EPS, KS, RANDOM, WHOLE_DEVICE
from costmodel.evaluation._novelty import NOVELTY
from costmodel.evaluation._statistics import compare, coverage, gap, statistics

NOTE = (
    "Score@k: best latency / best latency among the k chosen first: those of the best scores, or of the list "
    f"that a model makes itself, which begins with its best score. {RANDOM}: the exact expectation of "
    f"drawing configs at random. {WHOLE_DEVICE}: ranks configs as they were measured on the largest SM "
    "budget of the same workload and device; it has seen measurements that no learner has. Gap recovered: "
    "the first choice that runs against the whole-device choice, pooled over tasks on less than the largest "
    "budget; 1 is the best config everywhere, 0 the whole-device choice. N_eps: median measurements until "
    f"within {EPS:.0%} of the best. Latency error: median of |predicted / measured - 1|; bias: geometric "
    "mean of predicted / measured. Coverage: share of configs measured within their predicted interval, "
    "after n measurements of those not measured; width: median of its upper / lower end. Intervals: 95 % "
    "bootstraps over workloads, or over devices "
    "where these are held out. Learning: all folds and runs."
)
SHOTS_NOTE = (
    "After n measurements: best latency / best latency measured; +k: of these and the k next of the list. A "
    "model is adapted after each number of measurements shown. All configs of a task count, those measured "
    "too. The gap recovered is that of the best measured."
)


@dataclass(frozen=True)
class Report:
    """Results of an evaluation.

    Attributes:
        tasks: One row a learner, run and task: ``learner``, ``run`` (number of the run, from 0), ``task``,
            ``workload``, ``kind``, ``device``, ``sms_granted``, ``configs``, ``whole_device`` (whether it has
            the largest budget of its device), ``workload_is``, ``device_is`` and ``budget_is`` (see
            ``novelty``), ``score_at_1``, ``score_at_5``, ``score_at_10``, ``score_at_25``, ``regret_error``,
            ``n_eps``, ``log_excess`` (log of the first choice that runs / best), ``ran`` (configs that did),
            ``latency_error`` (median |predicted / measured - 1|), ``log_bias`` (mean log of predicted /
            measured), ``covered`` (configs that ran within their interval) and ``interval_width`` (median
            high / low), the last four NaN without prediction. The references ``random`` and, if there are
            parts of a device, ``whole device`` are among the learners.
        split: Name of the split.
        seconds: Seconds that each learner took to fit and predict, over all folds and runs.
        note: What the numbers mean and what the references have seen.
        cluster: Column of ``tasks`` that the intervals draw by.
        shots: One row a learner, run, task and number of measurements, see ``measure_in_turn``; empty where
            nothing was measured.
        few_shot: How tasks were measured; None if they were not.
    """

    tasks: pd.DataFrame
    split: str
    seconds: Mapping[str, float]
    note: str = NOTE
    cluster: str = "workload"
    shots: pd.DataFrame = field(default_factory=pd.DataFrame)
    few_shot: FewShot | None = None

    @cached_property
    def learners(self) -> list[str]:
        """Names, references first."""
        return [str(name) for name in pd.unique(self.tasks["learner"])]

    @cached_property
    def partial_budgets(self) -> list[int]:
        """SM budgets that are less than the largest of their device, ascending."""
        return sorted({int(sms) for sms in self.tasks.loc[~self._whole(self.tasks), "sms_granted"]})

    @cached_property
    def has_intervals(self) -> bool:
        """Whether a learner predicts intervals, without measurements or after some."""
        tables = [table for table in (self.tasks, self.shots) if len(table)]
        return any(bool(table["covered"].notna().any()) for table in tables)

    def summary(self) -> list[dict[str, Any]]:
        """One entry a learner: statistics of each metric over tasks and runs, gap recovered and coverage.

        ``latency_bias`` is the geometric mean over tasks of predicted / measured latency: 1 if predictions
        are right on average, 2 if they are twice too long. ``latency_error`` is the median over tasks.
        ``runs`` has the mean Score@k of each run.
        """
        return [self._summary(name) for name in self.learners]

    def against(self, baseline: str) -> list[dict[str, Any]]:
        """Each other learner's Score@k against a baseline's on the same tasks, see ``compare``."""
        scores = [f"score_at_{k}" for k in KS]
        of = {name: self._of(name).groupby("task")[scores].mean() for name in self.learners}
        cluster = self.tasks.groupby("task")[self.cluster].first()
        return [
            {"learner": name, "baseline": baseline, **compare(of[name], of[baseline], cluster)}
            for name in self.learners
            if name not in (baseline, WHOLE_DEVICE)
        ]

    def by_budget(self) -> pd.DataFrame:
        """One row a learner and SM budget: mean ``score_at_1``, ``score_at_1_median``, ``gap_recovered``."""
        return self._by(["sms_granted"])

    def by_device(self) -> pd.DataFrame:
        """As ``by_budget``, one row a learner and device."""
        return self._by(["device"])

    def by_novelty(self) -> pd.DataFrame:
        """As ``by_budget``, one row a learner and kind of novelty, see ``novelty``."""
        return self._by(list(NOVELTY))

    def by_shots(self) -> pd.DataFrame:
        """One row a learner and number of measurements: means over tasks and runs, gap recovered with ends.

        ``n_eps`` and ``n_eps_1``, the medians of measurements until within 5 % and 1 %, are in the last row
        of a learner.
        """
        if self.shots.empty:
            return pd.DataFrame()
        means = ["score_after", *(f"score_at_{k}" for k in KS)]
        medians = ["latency_error", "n_eps", "n_eps_1"]
        found = []
        for (name, shots), group in self.shots.groupby(["learner", "shots"], sort=False):
            low, high = statistics(group["score_at_1"], group[self.cluster])["mean_ci95"]
            found.append(
                {"learner": name, "shots": shots, "tasks": len(group)}
                | {column: group[column].mean() for column in means}
                | {"score_at_1_low": low, "score_at_1_high": high}
                | {column: group[column].median() for column in medians}
                | self._gap(group)
            )
        return pd.DataFrame(found)

    def by_coverage(self) -> pd.DataFrame:
        """Coverage of intervals over all tasks, by device and by SM budget, by number of measurements.

        One row a learner, number of ``shots`` and group of tasks: ``by`` (``all``, ``device`` or
        ``sms_granted``), ``of`` (its value), and what ``coverage`` gives. Without measurements all configs
        count, after some those that were not measured. Empty where no learner predicts intervals.
        """
        zero_shot = self.tasks.assign(shots=0)
        few_shot = [self.shots[self.shots["shots"] > 0]] if len(self.shots) else []
        told = pd.concat([zero_shot, *few_shot])
        told = told[told["covered"].notna()].assign(all="")
        return pd.DataFrame(
            [
                {"learner": learner, "shots": shots, "by": by, "of": of, **coverage(group, self.cluster)}
                for (learner, shots), tasks in told.groupby(["learner", "shots"], sort=False)
                for by in ("all", "device", "sms_granted")
                for of, group in tasks.groupby(by)
            ]
        )

    def to_dict(self, baseline: str | None = None) -> dict[str, Any]:
        """Everything, as JSON values; what is not a number becomes null when written."""
        tables = {
            "by_budget": self.by_budget(),
            "by_device": self.by_device(),
            "by_novelty": self.by_novelty(),
            "by_coverage": self.by_coverage(),
        }
        shots = {"by_shots": self.by_shots(), "shots": self.shots} if self.few_shot else {}
        return {
            "split": self.split,
            "note": self.note,
            "seconds": dict(self.seconds),
            "summary": self.summary(),
            **({"against": self.against(baseline)} if baseline else {}),
            **{name: table.to_dict("records") for name, table in (tables | shots).items()},
            "tasks": self.tasks.to_dict("records"),
        }

    def _of(self, name: str) -> pd.DataFrame:
        return self.tasks[self.tasks["learner"] == name]

    def _summary(self, name: str) -> dict[str, Any]:
        tasks = self._of(name)
        scores = [f"score_at_{k}" for k in KS]
        runs = tasks.groupby("run")[scores].mean()
        return {
            "learner": name,
            "tasks": tasks["task"].nunique(),
            **{score: statistics(tasks[score], tasks[self.cluster]) for score in scores},
            "runs": {score: runs[score].tolist() for score in scores},
            "regret_error": float(tasks["regret_error"].median()),
            "n_eps": float(tasks["n_eps"].median()),
            "latency_error": float(tasks["latency_error"].median()),
            "latency_bias": float(np.exp(tasks["log_bias"].mean())),
            **self._gap(tasks),
            **coverage(tasks, self.cluster),
        }

    def _by(self, columns: list[str]) -> pd.DataFrame:
        found = []
        for name in self.learners:
            for values, group in self._of(name).groupby(columns):
                keys = dict(zip(columns, values, strict=True))
                mean = {"score_at_1": group["score_at_1"].mean(), "tasks": group["task"].nunique()}
                median = {"score_at_1_median": group["score_at_1"].median()}
                found.append(
                    {"learner": name, **keys, **mean, **median, **self._gap(group)}
                    | coverage(group, self.cluster)
                )
        return pd.DataFrame(found)

    def _gap(self, tasks: pd.DataFrame) -> dict[str, float]:
        """Pooled over these tasks of one learner that have a part of a device, against its whole's choice."""
        tasks = tasks[~self._whole(tasks)]
        full = self._of(WHOLE_DEVICE).set_index("task")["log_excess"].reindex(tasks["task"]).to_numpy()
        return gap(tasks["log_excess"].to_numpy(), full, tasks[self.cluster].to_numpy())

    @staticmethod
    def _whole(tasks: pd.DataFrame) -> NDArray[np.bool_]:
        return tasks["whole_device"].to_numpy(dtype=np.bool_)
