"""What was chosen in each task, and what that costs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from costmodel.dataset import Dataset
from costmodel.irregular import occupancy_block_size
from costmodel.kernels import CudaSource
from costmodel.learners._statistics import cluster_bootstrap_interval
from costmodel.records import Workload

Rows = list[dict[str, Any]]
Rule = Callable[[pd.DataFrame], int | None]  # position of the row that a rule takes; None where it has none

NEAR = 0.03  # ways that nobody would mind
NOISE = 0.01  # ways whose best kernels are so near each other are as good
_KEPT = ["task", "workload", "family", "sms_granted", "shape", "distribution"]


def chosen(rows: pd.DataFrame, name: str, rule: Rule, what: str = "way") -> Iterator[dict[str, Any]]:
    """What a rule takes in each task in which something ran; tasks in which it has nothing are left out.

    Args:
        rows: Rows of tasks.
        name: Of the rule.
        rule: What takes a row of a task.
        what: The column that says what is to be chosen rightly: ``way`` or ``threads``.
    """
    for _, task in rows.groupby("task", observed=True, sort=False):
        best_s = task["latency_s"].min()
        at = rule(task) if np.isfinite(best_s) else None
        if at is None:
            continue
        row, best_of = task.iloc[at], task.groupby(what)["latency_s"].min()
        gap = best_of[row[what]] / best_s - 1.0
        yield {
            **{key: row[key] for key in _KEPT},
            "chosen_by": name,
            "way": row[what],
            "best_way": best_of.idxmin(),
            "right": bool(gap <= NOISE),
            "near": bool(gap <= NEAR),
            "regret": float(row["latency_s"] / best_s - 1.0),
            "seconds": float(row["latency_s"]),
        }


def first(task: pd.DataFrame) -> int:
    """The row with the highest score."""
    return int(task["score"].to_numpy().argmax())


def always(way: str) -> Rule:
    """One way of a single kernel, such as a call of PyTorch, wherever it ran."""

    def rule(task: pd.DataFrame) -> int | None:
        at = np.flatnonzero((task["way"] == way).to_numpy() & np.isfinite(task["latency_s"].to_numpy()))
        return int(at[0]) if at.size else None

    return rule


def block_size_by_occupancy(data: Dataset) -> Rule:
    """The author's default with the block size that GeNN would take, see ``occupancy_block_size``.

    Threads and registers are those of the default. Of sizes that were not recorded the next larger stands.
    """
    source, frame = CudaSource(), data.measurements
    compiled = {
        c: kernels[0]
        for c, kernels in zip(frame["candidate"], frame["resources"], strict=True)
        if len(kernels)
    }

    def rule(task: pd.DataFrame) -> int | None:
        workload = Workload.parse(str(task["workload"].iloc[0]))
        defaults = source.space(workload, "cuda").default.decisions
        at = dict[int, int]()  # by block size, positions of configs that are the default otherwise
        for i, candidate in enumerate(task["candidate"]):
            config = data.candidates[candidate].config.decisions
            if {**config, "block_size": 0} == {**defaults, "block_size": 0}:
                at[int(config["block_size"])] = i
        default = task["candidate"].iloc[at[defaults["block_size"]]] if defaults["block_size"] in at else None
        if default not in compiled:
            return None
        (launch,) = data.candidates[default].launches
        size = occupancy_block_size(
            launch.blocks * launch.threads_per_block,
            compiled[default]["registers_per_thread"],
            sms=int(task["sms_granted"].iloc[0]),
        )
        larger = [each for each in at if each >= size]
        return at[min(larger)] if larger else at[max(at)]

    return rule


def summary(table: pd.DataFrame, beside: Mapping[str, pd.DataFrame] | None = None) -> Rows:
    """Shares of right ways and regrets of each way to choose, and how often it is ahead of others.

    Args:
        table: What ``chosen`` gives of several.
        beside: By name, what else chose in the same tasks.
    """
    found = []
    for name, group in table.groupby("chosen_by", sort=False):
        regret, workloads = group["regret"].to_numpy(), group["workload"].astype(str).to_numpy()
        low, high = cluster_bootstrap_interval(regret, workloads)
        row = {
            "chosen_by": name,
            "tasks": len(group),
            "right": float(group["right"].mean()),
            "within 3 %": float(group["near"].mean()),
            "mean_regret": float(regret.mean()),
            "ci95": [low, high],
            "median_regret": float(np.median(regret)),
            "p90_regret": float(np.quantile(regret, 0.9)),
        }
        for other, taken in (beside or {}).items():
            both = group.merge(taken, on="task", suffixes=("", "_other"))
            row[f"no slower than {other}"] = float((both["seconds"] <= 1.001 * both["seconds_other"]).mean())
        found.append(row)
    return found


def sparse_gain(rows: pd.DataFrame, dense: Sequence[str]) -> Rows:
    """Latency of the best dense kernel over that of the best sparse one, by layer and SM budget.

    Args:
        rows: Those of pruned layers.
        dense: Ways that read the weights with their zeros.
    """
    ran = rows[np.isfinite(rows["latency_s"])]
    of_dense = ran["way"].isin(dense)
    tasks = ["workload", "sms_granted"]
    best = [part.groupby(tasks, observed=True)["latency_s"].min() for part in (ran[of_dense], ran[~of_dense])]
    gain = (best[0] / best[1]).unstack()
    return [
        {"workload": str(name), **{f"{sms} SMs": float(each) for sms, each in row.items()}}
        for name, row in gain.iterrows()
    ]


def errors(rows: pd.DataFrame, by: Sequence[str]) -> Rows:
    """Relative errors of predicted latencies, median and 90th percentile, and the bias."""
    ran = rows[np.isfinite(rows["latency_s"]) & rows["predicted_s"].notna()]
    ran = ran.assign(log=np.log(ran["predicted_s"] / ran["latency_s"]))
    found = []
    for key, group in ran.groupby(list(by), sort=False, observed=True):
        error = np.expm1(np.abs(group["log"]))
        place = dict(zip(by, key if isinstance(key, tuple) else (key,), strict=True))
        found.append(
            {
                **{name: str(value) for name, value in place.items()},
                "kernels": len(group),
                "median_error": float(error.median()),
                "p90_error": float(error.quantile(0.9)),
                "bias": float(np.expm1(group["log"].median())),
            }
        )
    return found


def size_correlations(rows: pd.DataFrame, by: str) -> Rows:
    """Rank correlation of predicted and measured latency of the best kernels over workloads, by SM budget."""
    ran = rows[np.isfinite(rows["latency_s"])]
    best = ran.loc[ran.groupby(["learner", "task"], observed=True)["latency_s"].idxmin()]
    found = []
    for (learner, sms), group in best.groupby(["learner", by], sort=False):
        if group["predicted_s"].notna().all():
            rho = group["predicted_s"].corr(group["latency_s"], method="spearman")
            found.append({"chosen_by": learner, "sms": int(sms), "workloads": len(group), "rho": float(rho)})
    return found
