"""Statistics of a report, as tables, with 95 % intervals by a bootstrap over clusters of tasks."""

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.evaluation._judge import KS, RANDOM, WHOLE_DEVICE
from costmodel.learners._metrics import gap_recovered
from costmodel.learners._statistics import cluster_bootstrap_interval, cluster_bootstrap_ratio, win_rate

if TYPE_CHECKING:
    from costmodel.evaluation._report import EvaluationReport


_SCORES = [f"score_at_{k}" for k in KS]


def learner_statistics(report: "EvaluationReport") -> list[dict[str, Any]]:
    """One entry a learner: statistics of each metric over tasks and runs, gap recovered and coverage.

    ``latency_bias`` is the geometric mean over tasks of predicted / measured latency: 1 if predictions are
    right on average, 2 if they are twice too long. ``latency_error`` is the median over tasks. ``runs`` has
    the mean Score@k of each run.
    """
    return [_statistics(report, name) for name in report.learners]


def summary_table(report: "EvaluationReport") -> pd.DataFrame:
    """``learner_statistics`` with a row a learner and a column a number; columns without any are left out."""
    rows = {entry["learner"]: _flat(entry) for entry in learner_statistics(report)}
    table = pd.DataFrame.from_dict(rows, orient="index").rename_axis("learner")
    table["seconds"] = pd.Series(report.seconds, dtype=np.float64).reindex(table.index)
    return table.dropna(axis="columns", how="all")


def comparison(report: "EvaluationReport", baseline: str) -> list[dict[str, Any]]:
    """Each other learner's Score@k against a baseline's on the same tasks, see ``compare_paired``."""
    of = {name: _of(report, name).groupby("task")[_SCORES].mean() for name in report.learners}
    cluster = report.tasks.groupby("task")[report.cluster].first()
    return [
        {"learner": name, "baseline": baseline, **compare_paired(of[name], of[baseline], cluster)}
        for name in report.learners
        if name not in (baseline, WHOLE_DEVICE)
    ]


def table_by(report: "EvaluationReport", columns: list[str]) -> pd.DataFrame:
    """One row a learner and value of these columns: ``score_at_1``, its median, gap recovered, coverage."""
    found = []
    for name in report.learners:
        for values, group in _of(report, name).groupby(columns):
            keys = dict(zip(columns, values, strict=True))
            mean = {"score_at_1": group["score_at_1"].mean(), "tasks": group["task"].nunique()}
            median = {"score_at_1_median": group["score_at_1"].median()}
            found.append(
                {"learner": name, **keys, **mean, **median, **_gap(report, group)}
                | coverage(group, report.cluster)
            )
    return pd.DataFrame(found)


def table_by_shots(report: "EvaluationReport") -> pd.DataFrame:
    """One row a learner and number of measurements: means over tasks and runs, gap recovered with ends."""
    if report.shots.empty:
        return pd.DataFrame()
    means = ["score_after", *_SCORES]
    medians = ["latency_error", "n_eps", "n_eps_1"]
    found = []
    for (name, shots), group in report.shots.groupby(["learner", "shots"], sort=False):
        low, high = statistics(group["score_at_1"], group[report.cluster])["mean_ci95"]
        found.append(
            {"learner": name, "shots": shots, "tasks": group["task"].nunique()}
            | {column: group[column].mean() for column in means}
            | {"score_at_1_low": low, "score_at_1_high": high}
            | {column: group[column].median() for column in medians}
            | _gap(report, group)
        )
    return pd.DataFrame(found)


def table_by_coverage(report: "EvaluationReport") -> pd.DataFrame:
    """One row a learner, number of measurements and group of tasks, see ``EvaluationReport.by_coverage``."""
    zero_shot = report.tasks.assign(shots=0)
    few_shot = [report.shots[report.shots["shots"] > 0]] if len(report.shots) else []
    told = pd.concat([zero_shot, *few_shot])
    told = told[told["covered"].notna()].assign(all="")
    return pd.DataFrame(
        [
            {"learner": learner, "shots": shots, "by": by, "of": of, **coverage(group, report.cluster)}
            for (learner, shots), tasks in told.groupby(["learner", "shots"], sort=False)
            for by in ("all", "device", "sms_granted")
            for of, group in tasks.groupby(by)
        ]
    )


def best_learner(report: "EvaluationReport") -> str | None:
    """The learner of the highest mean Score@1, references aside; None where nothing but these was judged."""
    means = report.tasks.groupby("learner", sort=False)["score_at_1"].mean()
    learned = means.drop([RANDOM, WHOLE_DEVICE], errors="ignore")
    return str(learned.idxmax()) if len(learned) else None


def _statistics(report: "EvaluationReport", name: str) -> dict[str, Any]:
    tasks = _of(report, name)
    runs = tasks.groupby("run")[_SCORES].mean()
    return {
        "learner": name,
        "tasks": tasks["task"].nunique(),
        **{score: statistics(tasks[score], tasks[report.cluster]) for score in _SCORES},
        "runs": {score: runs[score].tolist() for score in _SCORES},
        "regret_error": float(tasks["regret_error"].median()),
        "n_eps": float(tasks["n_eps"].median()),
        "latency_error": float(tasks["latency_error"].median()),
        "latency_bias": float(np.exp(tasks["log_bias"].mean())),
        **_gap(report, tasks),
        **coverage(tasks, report.cluster),
    }


def _gap(report: "EvaluationReport", tasks: pd.DataFrame) -> dict[str, float]:
    """Pooled over these tasks of one learner that have a part of a device, against its whole's choice."""
    tasks = tasks[~tasks["whole_device"].to_numpy(dtype=np.bool_)]
    full = _of(report, WHOLE_DEVICE).set_index("task")["log_excess"].reindex(tasks["task"]).to_numpy()
    return gap(tasks["log_excess"].to_numpy(), full, tasks[report.cluster].to_numpy())


def statistics(values: "pd.Series[float]", clusters: "pd.Series[Any]") -> dict[str, Any]:
    """Median, 10th percentile, mean and its interval."""
    low, high = cluster_bootstrap_interval(np.asarray(values, dtype=np.float64), clusters.to_numpy())
    return {
        "median": float(values.median()),
        "p10": float(values.quantile(0.1)),
        "mean": float(values.mean()),
        "mean_ci95": [low, high],
    }


def compare_paired(
    scores: pd.DataFrame, baseline: pd.DataFrame, clusters: "pd.Series[Any]"
) -> dict[str, Any]:
    """Paired differences from a baseline and win rates.

    Args:
        scores: One row a task, its name the index, and one column a metric, higher is better.
        baseline: Likewise; tasks that only one of them has are left out.
        clusters: Cluster of each task by name.

    Returns:
        For each metric ``mean_difference``, its ``ci95``, and ``win_rate``.
    """
    shared = scores.index.intersection(baseline.index)
    of_task = clusters.reindex(shared).to_numpy()
    found = {}
    for name in scores:
        own, other = (table[name].loc[shared].to_numpy() for table in (scores, baseline))
        low, high = cluster_bootstrap_interval(own - other, of_task)
        found[str(name)] = {
            "mean_difference": float((own - other).mean()),
            "ci95": [low, high],
            "win_rate": win_rate(own, other),
        }
    return {"tasks": len(shared), **found}


def gap(log_excess: FloatArray, full: FloatArray, clusters: NDArray[Any]) -> dict[str, float]:
    """``gap_recovered`` and its ends, over the tasks whose whole-device choice is known (not NaN)."""
    known = np.isfinite(full)
    lost, gaps, best = log_excess[known], full[known], np.ones(known.sum())
    low, high = cluster_bootstrap_ratio(gaps - lost, gaps, clusters[known])
    return {
        "gap_recovered": gap_recovered(np.exp(lost), np.exp(gaps), best),
        "gap_recovered_low": low,
        "gap_recovered_high": high,
    }


def coverage(tasks: pd.DataFrame, cluster: str) -> dict[str, float]:
    """Share of the configs that ran within their interval, its ends, and the median width; NaN without."""
    told = tasks[tasks["covered"].notna()]
    within, ran = told["covered"].to_numpy(), told["ran"].to_numpy(dtype=np.float64)
    low, high = cluster_bootstrap_ratio(within, ran, told[cluster].to_numpy())
    return {
        "coverage": float(within.sum() / ran.sum()) if len(told) else float("nan"),
        "coverage_low": low,
        "coverage_high": high,
        "interval_width": float(told["interval_width"].median()),
    }


def _of(report: "EvaluationReport", name: str) -> pd.DataFrame:
    return report.tasks[report.tasks["learner"] == name]


def _flat(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of ``learner_statistics`` as numbers by name."""
    numbers: dict[str, Any] = {"tasks": entry["tasks"], "runs": len(entry["runs"][_SCORES[0]])}
    for score in _SCORES:
        low, high = entry[score]["mean_ci95"]
        numbers |= {score: entry[score]["mean"], f"{score}_low": low, f"{score}_high": high}
        numbers |= {f"{score}_{name}": entry[score][name] for name in ("median", "p10")}
    plain = {name: value for name, value in entry.items() if isinstance(value, int | float)}
    return numbers | {name: value for name, value in plain.items() if name not in numbers}
