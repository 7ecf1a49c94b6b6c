"""Judge what scores choose, task by task, and say what many tasks tell together.

``costmodel.evaluation.cross_validate`` does this for whole models and prints a report: prefer it. This is for
experiments that choose by something else, at another k, or compare what a report does not.

Configs of equal score count as chosen at random. A choice that fails scores 0. Tasks of one config, and those
in which nothing ran, tell nothing and are left out. Intervals are 95 % bootstraps that draw whole workloads.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from kit.held_out import Make, fit_folds
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset.splits._folds import Fold, select_whole_device
from costmodel.evaluation._judge import RANDOM, WHOLE_DEVICE, tested_tasks, whole_device_latency
from costmodel.evaluation._statistics import compare_paired, gap, statistics
from costmodel.learners import score_at_k
from costmodel.learners._metrics import listed_first, log_excess
from costmodel.transfer import LearningRows, TransferModel, shortlist
from costmodel.transfer._plan import Posterior

KS = (1, 8)


def judge_scores(rows: pd.DataFrame, score: FloatArray, ks: Sequence[int] = KS) -> pd.DataFrame:
    """Judge the configs that scores choose first in each task.

    Args:
        rows: Rows of a dataset (``Dataset.rows``) with all that was measured of their workloads, so that the
            whole device's choice is known.
        score: ``(n,)``, higher is better; rows with NaN are left out.
        ks: Numbers of configs that are chosen.

    Returns:
        A row a task: ``task``, ``workload``, ``kind``, ``device``, ``sms_granted``, ``configs``,
        ``score_at_k`` for each k, ``log_excess`` (log of the first choice that runs / best) and
        ``whole_excess`` (that of the whole device's choice; NaN on the whole device, or where not known).
    """
    whole_s = np.where(select_whole_device(rows), np.inf, whole_device_latency(rows))
    asked = np.flatnonzero(~np.isnan(score))
    found = []
    for task in tested_tasks(rows.iloc[asked]):
        at, latency_s = asked[task.at], task.latency_s
        has_whole = bool(np.isfinite(whole_s[at]).any())
        found.append(
            {
                **task.facts,
                **{f"score_at_{k}": score_at_k(score[at], latency_s, k) for k in ks},
                "log_excess": log_excess(score[at], latency_s),
                "whole_excess": log_excess(-whole_s[at], latency_s) if has_whole else np.nan,
            }
        )
    return pd.DataFrame(found)


def judge_learners(
    data: LearningRows,
    folds: Sequence[Fold],
    models: Mapping[str, Make],
    *,
    seeds: Sequence[int] = (0,),
    ks: Sequence[int] = KS,
) -> pd.DataFrame:
    """Judge learners on what each fold holds out, beside a random choice and that of the whole device.

    Returns:
        ``judge_scores`` of each ``learner`` and ``seed``. The references have the seed 0; that of the whole
        device knows measurements that no learner has.
    """
    tested = np.isin(np.arange(len(data.rows)), np.concatenate([fold.test for fold in folds]))
    whole_s = whole_device_latency(data.rows)
    is_known = pd.Series(np.isfinite(whole_s)).groupby(data.task_ids).transform("any")
    references = {
        RANDOM: np.where(tested, 0.0, np.nan),
        WHOLE_DEVICE: np.where(tested & is_known, -whole_s, np.nan),
    }
    found = [
        judge_scores(data.rows, each, ks).assign(learner=name, seed=0) for name, each in references.items()
    ]
    for name, make in models.items():
        for seed in seeds:
            score = np.full(len(data.rows), np.nan)
            for fold, model in fit_folds(data, folds, make, seed):
                score[fold.test] = _order(data, fold, model, max(ks))
            found.append(judge_scores(data.rows, score, ks).assign(learner=name, seed=seed))
    return pd.concat(found, ignore_index=True)


def _order(data: LearningRows, fold: Fold, model: TransferModel, k: int) -> FloatArray:
    """Scores of a fold's test rows, those first that a model lists itself where it knows how sure it is."""
    score = data.predict(model, fold.test).score
    if isinstance(model, Posterior):
        for task in tested_tasks(data.rows.iloc[fold.test]):
            listed = shortlist(model, data.features[fold.test[task.at]], k)
            score[task.at] = listed_first(score[task.at], listed)
    return score


def summarise(tasks: pd.DataFrame, cluster: str = "workload") -> list[dict[str, Any]]:
    """Say how good each learner is, over all tasks and seeds.

    Args:
        tasks: What ``judge_learners`` gives, or several of ``judge_scores`` with ``learner`` and ``seed``.
        cluster: Column whose values are drawn for the intervals.

    Returns:
        For each learner: number of ``tasks``; for each k mean ``score_at_k``, its ``_ci95`` and its mean with
        each seed, ``_seeds``; ``gap_recovered`` (pooled over parts of a device: 1 is the best config
        everywhere, 0 the whole device's choice) and its ``_ci95``.
    """
    found = []
    for name, own in tasks.groupby("learner", sort=False):
        row: dict[str, Any] = {"learner": name, "tasks": own["task"].nunique()}
        for score in _scores(own):
            told = statistics(own[score], own[cluster])
            row |= {score: told["mean"], f"{score}_ci95": told["mean_ci95"]}
            row |= {f"{score}_seeds": own.groupby("seed")[score].mean().tolist()}
        lost, whole = own["log_excess"].to_numpy(), own["whole_excess"].to_numpy()
        recovered, *ends = gap(lost, whole, own[cluster].to_numpy()).values()
        found.append(row | {"gap_recovered": recovered, "gap_recovered_ci95": ends})
    return found


def compare(tasks: pd.DataFrame, baseline: str, cluster: str = "workload") -> list[dict[str, Any]]:
    """Compare each other learner with a baseline on the tasks that both have, seeds averaged.

    Returns:
        For each learner: number of ``tasks`` and, for each ``score_at_k``, ``mean_difference``, its ``ci95``
        and ``win_rate``.
    """
    scores = _scores(tasks)
    by_task = {name: own.groupby("task")[scores].mean() for name, own in tasks.groupby("learner", sort=False)}
    clusters = tasks.groupby("task")[cluster].first()
    return [
        {"learner": name, "baseline": baseline, **compare_paired(own, by_task[baseline], clusters)}
        for name, own in by_task.items()
        if name != baseline
    ]


def bootstrap_interval(
    statistic: Callable[[Positions], float],
    clusters: NDArray[Any],
    *,
    resamples: int = 2000,
    method: Literal["linear", "inverted_cdf"] = "linear",
) -> list[float]:
    """Return the 95 % interval of a statistic that is no mean; means have ``cluster_bootstrap_interval``.

    Args:
        statistic: Of rows at these positions, each as often as it is drawn.
        clusters: ``(n,)`` cluster of each row; whole clusters are drawn.
        resamples: Number of draws.
        method: As of ``numpy.quantile``; ``inverted_cdf`` where the statistic may be infinite.
    """
    names = np.unique(clusters)
    rows_of, rng = [np.flatnonzero(clusters == name) for name in names], np.random.default_rng(0)
    draws = (rng.integers(len(names), size=len(names)) for _ in range(resamples))
    found = [statistic(np.concatenate([rows_of[i] for i in drawn])) for drawn in draws]
    ends: list[float] = np.quantile(found, [0.025, 0.975], method=method).tolist()
    return ends


def _scores(tasks: pd.DataFrame) -> list[str]:
    return [name for name in map(str, tasks) if name.startswith("score_at_")]
