"""What an evaluation found."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.evaluation._judge import EPS, KS, RANDOM, WHOLE_DEVICE, on_whole_device
from costmodel.metrics import cluster_bootstrap_interval, gap_recovered

NOTE = (
    f"Score@k: best latency / best latency among the k chosen first. {RANDOM}: the exact expectation of "
    f"drawing configs at random. {WHOLE_DEVICE}: ranks configs as they were measured on the largest SM "
    "budget of the same workload and device; it has seen measurements that no learner has. Gap recovered: "
    "the first choice that runs against the whole-device choice, pooled over tasks on less than the largest "
    "budget; 1 is the best config everywhere, 0 the whole-device choice. N_eps: median measurements until "
    f"within {EPS:.0%} of the best. Latency error: median of |predicted / measured - 1|; bias: geometric "
    "mean of predicted / measured. Intervals: 95 % bootstraps of the mean over workloads, or over devices "
    "where these are held out. Learning: all folds."
)


@dataclass(frozen=True)
class Report:
    """Results of an evaluation.

    Attributes:
        tasks: One row a learner and task: ``learner``, ``task``, ``workload``, ``kind``, ``device``,
            ``sms_granted``, ``configs``, ``score_at_1``, ``score_at_5``, ``score_at_10``, ``score_at_25``,
            ``regret_error``, ``n_eps``,
            ``log_excess`` (log of the first choice that runs / best), ``latency_error`` (median |predicted /
            measured - 1|) and ``log_bias`` (mean log of predicted / measured), both NaN without prediction.
            The references ``random`` and, if there are parts of a device, ``whole device`` are
            among the learners.
        split: Name of the split.
        seconds: Seconds that each learner took to fit and predict, over all folds.
        note: What the numbers mean and what the references have seen.
        cluster: Column of ``tasks`` that the intervals draw by.
    """

    tasks: pd.DataFrame
    split: str
    seconds: Mapping[str, float]
    note: str = NOTE
    cluster: str = "workload"

    @cached_property
    def learners(self) -> list[str]:
        """Names, references first."""
        return [str(name) for name in pd.unique(self.tasks["learner"])]

    def summary(self) -> list[dict[str, Any]]:
        """One entry a learner: statistics of each metric over tasks, and the gap recovered.

        ``latency_bias`` is the geometric mean over tasks of predicted / measured latency: 1 if predictions
        are right on average, 2 if they are twice too long. ``latency_error`` is the median over tasks.
        """
        return [self._summary(name) for name in self.learners]

    @cached_property
    def partial_budgets(self) -> list[int]:
        """SM budgets that are less than the largest of their device, ascending."""
        return sorted({int(sms) for sms in self.tasks.loc[self._has_part, "sms_granted"]})

    @cached_property
    def _has_part(self) -> NDArray[np.bool_]:
        """``(n,)`` whether each row of ``tasks`` has less than the whole of its device."""
        return ~on_whole_device(self.tasks)

    def by_budget(self) -> pd.DataFrame:
        """One row a learner and SM budget: mean ``score_at_1``, ``score_at_1_median``, ``gap_recovered``."""
        budgets = sorted(self.tasks["sms_granted"].unique())
        return pd.DataFrame(
            {
                "learner": name,
                "sms_granted": int(sms),
                "score_at_1": group["score_at_1"].mean(),
                "score_at_1_median": group["score_at_1"].median(),
                "gap_recovered": self._gap_recovered(group),
            }
            for name in self.learners
            for sms in budgets
            for group in [self._of(name)[self._of(name)["sms_granted"] == sms]]
        )

    def to_dict(self) -> dict[str, Any]:
        """Everything, as JSON values; what is not a number becomes null when written."""
        return {
            "split": self.split,
            "note": self.note,
            "seconds": dict(self.seconds),
            "summary": self.summary(),
            "by_budget": self.by_budget().to_dict("records"),
            "tasks": self.tasks.to_dict("records"),
        }

    def _of(self, name: str) -> pd.DataFrame:
        return self.tasks[self.tasks["learner"] == name]

    def _summary(self, name: str) -> dict[str, Any]:
        tasks = self._of(name)
        return {
            "learner": name,
            "tasks": len(tasks),
            **{f"score_at_{k}": self._statistics(tasks, f"score_at_{k}") for k in KS},
            "regret_error": float(tasks["regret_error"].median()),
            "n_eps": float(tasks["n_eps"].median()),
            "latency_error": float(tasks["latency_error"].median()),
            "latency_bias": float(np.exp(tasks["log_bias"].mean())),
            "gap_recovered": self._gap_recovered(tasks),
        }

    def _gap_recovered(self, tasks: pd.DataFrame) -> float:
        """Pooled over these tasks of one learner that have a part of a device, against its whole's choice."""
        tasks = tasks[self._has_part[tasks.index]]
        full = self._of(WHOLE_DEVICE).set_index("task")["log_excess"].reindex(tasks["task"])
        best = np.ones(len(tasks))
        return gap_recovered(np.exp(tasks["log_excess"].to_numpy()), np.exp(full.to_numpy()), best)

    def _statistics(self, tasks: pd.DataFrame, metric: str) -> dict[str, Any]:
        values = tasks[metric].to_numpy()
        low, high = cluster_bootstrap_interval(values, tasks[self.cluster].to_numpy())
        return {
            "median": float(np.median(values)),
            "p10": float(np.quantile(values, 0.1)),
            "mean": float(values.mean()),
            "mean_ci95": [low, high],
        }
