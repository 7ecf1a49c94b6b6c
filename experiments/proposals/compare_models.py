"""How well models of a workload's first rounds predict the kernels measured later: see README.md."""

import argparse
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track
from scipy.stats import spearmanr
from sklearn.ensemble import ExtraTreesRegressor

from costmodel.dataset import load_dataset
from costmodel.dataset.splits._folds import Fold
from costmodel.features._table import FeatureTable
from costmodel.records import Workload
from costmodel.search._gaussian_process import GaussianProcess
from costmodel.search._improvement import DecisionColumns
from costmodel.transfer import LearningRows, make_model

sys.path.append(str(Path(__file__).parents[1]))
from budgets import on_budgets
from kit.held_out import fit_folds

DATASET = Path(__file__).parents[2] / "datasets" / "sm-budgets"
DEVICE = "NVIDIA H200"
BUDGETS = (8, 32, 132)
FIRST, PER_ROUND, ROUNDS = 24, 14, 5
GROUPS = ("matmul, float32", "matmul, float16", "conv, float32", "conv, float16", "row-wise")

Predict = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def trees(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread over 200 extremely randomised trees."""
    known, asked = (np.nan_to_num(values, nan=-1.0) for values in (X, asked))
    forest = ExtraTreesRegressor(200, max_features=0.5, random_state=0).fit(known, y)
    every = np.array([tree.predict(asked.astype(np.float32)) for tree in forest.estimators_])
    return every.mean(axis=0), every.std(axis=0)


def process(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of the Gaussian process that proposals use."""
    return GaussianProcess.fit(X, y).predict(asked)


# Name, predictor, what it sees of a kernel, what log latency it predicts above.
MODELS: tuple[tuple[str, Predict, str, str], ...] = (
    ("trees", trees, "features and decisions", "analytic time"),
    ("process", process, "features", "analytic time"),
    ("process", process, "features and decisions", "analytic time"),
    ("process", process, "features", "other workloads"),
    ("process", process, "features and decisions", "other workloads"),
    ("process", process, "before lowering: features", "roofline"),
    ("process", process, "before lowering: features and decisions", "roofline"),
)


def group(name: str) -> str:
    """Which of ``GROUPS`` a workload is reported in."""
    workload = Workload.parse(name)
    family = "matmul" if "matmul" in workload.kind else "conv"
    return f"{family}, {workload.dtype}" if family in workload.kind else "row-wise"


def half(names: list[str], reported: bool) -> list[str]:
    """Every second workload of each group: models were chosen on the first, the second is reported."""
    return [name for of in GROUPS for name in [n for n in names if group(n) == of][reported::2]]


def bounds(table: FeatureTable, prior: np.ndarray) -> dict[str, np.ndarray]:
    """What log latency is predicted above."""
    roofline, above = (
        np.log(2.0) * table.values[:, table.index(name)]
        for name in ("log2_roofline_s", "log2_analytic_over_roofline")
    )
    return {"roofline": roofline, "analytic time": roofline + above, "other workloads": prior}


def views(table: FeatureTable, decisions: np.ndarray) -> dict[str, np.ndarray]:
    """What a model sees of a kernel."""
    bare = table.values[:, [column.group != "launch" for column in table.columns]]
    seen = {"features": table.values, "before lowering: features": bare}
    return seen | {f"{name} and decisions": np.hstack([X, decisions]) for name, X in seen.items()}


def rounds_of(rows: pd.DataFrame, measured_at: pd.Series) -> np.ndarray:
    """The round of each row's kernel, told by the order in which kernels were measured."""
    order = measured_at[rows["candidate"].unique()].sort_values(kind="stable").index
    place = pd.Series(np.arange(len(order)), index=order)[rows["candidate"]].to_numpy()
    return np.maximum(0, (place - FIRST) // PER_ROUND + 1)


def judge(y: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> dict[str, float]:
    """How good a prediction of one task is."""
    order = np.argsort(mean, kind="stable")
    return {
        "rank correlation": spearmanr(y, mean).statistic,
        "loss of first": float(np.exp(y[order[0]] - y.min()) - 1.0),
        "loss of 4": float(np.exp(y[order[:4]].min() - y.min()) - 1.0),
        "rms error": float(np.sqrt(np.mean((y - mean) ** 2))),
        "within 1 spread": float((np.abs(y - mean) < spread).mean()),
    }


def judged(
    rows: pd.DataFrame, table: FeatureTable, prior: np.ndarray, decisions: np.ndarray
) -> Iterator[dict]:
    """Each model, after each round, on all kernels measured later, at each budget."""
    y, sms, round_ = (rows[name].to_numpy() for name in ("log_latency", "sms_granted", "round"))
    seen, above = views(table, decisions), bounds(table, prior)
    for known in range(1, ROUNDS + 1):
        early, later = round_ < known, round_ >= known
        for name, predict, view, bound in MODELS if later.any() else ():
            X, above_s = seen[view], above[bound]
            mean, spread = predict(X[early], (y - above_s)[early], X[later])
            mean = mean + above_s[later]
            for budget in BUDGETS:
                at = sms[later] == budget
                scores = judge(y[later][at], mean[at], spread[at])
                yield {"model": name, "sees": view, "above": bound, "known": known, **scores}


def main() -> None:
    """Judge each model on every second workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chosen-on", action="store_true", help="the workloads that models were chosen on")
    arguments = parser.parse_args()
    dataset = load_dataset(DATASET)
    places = [i for i, p in enumerate(dataset.platforms) if p.device.name == DEVICE and p.isolation != "mps"]
    measured = dataset.measurements[dataset.measurements["platform"].isin(places)]
    measured_at = measured.groupby("candidate")["measured_at"].min()
    data = LearningRows.of(on_budgets(dataset, DEVICE, BUDGETS))
    ran, names = np.isfinite(data.latency_s), data.rows["workload"].to_numpy()
    folds = [
        Fold(name, np.flatnonzero(ran & (names != name)), np.flatnonzero(ran & (names == name)))
        for name in half(sorted(np.unique(names)), not arguments.chosen_on)
    ]
    found = []
    for fold, others in track(fit_folds(data, folds, partial(make_model, "xgboost")), total=len(folds)):
        rows = data.rows.iloc[fold.test].assign(log_latency=np.log(data.latency_s[fold.test]))
        rows = rows.assign(round=rounds_of(rows, measured_at))
        configs = [dataset.candidates[i].config for i in rows["candidate"]]
        decisions = DecisionColumns.of(configs).values(configs)
        prior = np.log(data.predict(others, fold.test).latency_s)
        table = FeatureTable(data.features[fold.test], data.features.columns)
        of = {"group": group(fold.held_out)}
        found += [{**of, **row} for row in judged(rows, table, prior, decisions)]
    results, by = pd.DataFrame(found), ["model", "sees", "above"]
    scores = results.columns[5:]
    print(results.groupby(by, sort=False)[scores].mean().round(3).to_string())
    for score in ("loss of 4", "loss of first", "rank correlation"):
        for columns in ("group", "known"):
            print(f"\n{score}")
            print(results.pivot_table(score, by, columns, sort=False).round(3).to_string())


if __name__ == "__main__":
    main()
