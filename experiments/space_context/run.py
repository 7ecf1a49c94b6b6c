"""Does it help to see a kernel relative to the other kernels of its workload? See README.md here."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost

from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.splits._final import without_final_report
from costmodel.kernels._sources import open_sources
from costmodel.metrics import score_at_k
from costmodel.metrics._interval import cluster_bootstrap_interval
from costmodel.records import Workload
from costmodel.report._progress import track
from costmodel.search import KernelSpace
from costmodel.transfer import LearningRows, make_model

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

STACK = "stack"
LOWEST = -np.log(64.0)  # log score of the slowest kernels and of those that failed


def main() -> None:
    arguments = parse()
    data = load_dataset(arguments.dataset, devices=[arguments.device])
    tasks = Tasks(without_final_report(data), arguments.sms)
    tables = {
        "trees": tasks.X,
        "trees, relative to the recorded kernels": tasks.relative_to(tasks.of_recorded()),
        "trees, relative to the space": tasks.relative_to(tasks.of_space(arguments.configs)),
    }
    lines = []
    for seed in track(arguments.seeds, "folds", len(arguments.seeds)):
        folds = tasks.folds(arguments.folds, seed)
        found = {STACK: stack(tasks, folds)} | {name: trees(tasks, X, folds) for name, X in tables.items()}
        found |= {f"{STACK} and {name}": mean_of(tasks, found[STACK], found[name]) for name in tables}
        scores = {name: tasks.scores(predicted) for name, predicted in found.items()}
        lines += [line(name, seed, scores, tasks) for name in scores]
    print(pd.DataFrame(lines).round(3).to_string(index=False))
    if arguments.json:
        arguments.json.write_text(json.dumps(lines, indent=1) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--device", help="name of the device whose measurements count")
    parser.add_argument("--sms", type=int, nargs="+", help="SM budgets")
    parser.add_argument("--configs", type=int, help="random configs that stand for a space")
    parser.add_argument("--folds", type=int, help="groups of shapes, each held out in turn")
    parser.add_argument("--seeds", type=int, nargs="+", help="assignments of shapes to groups")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


class Tasks:
    """Rows of the tasks that are judged: features, latencies, and what is constant in a task."""

    def __init__(self, data: Dataset, sms: Sequence[int]) -> None:
        self.platforms = [p for p in data.platforms if p.isolation != "mps" and p.sms_granted in sms]
        wanted = [data.platforms.index(platform) for platform in self.platforms]
        rows = LearningRows.of(data)
        self._at = np.flatnonzero(data.rows["platform"].isin(wanted))
        frame = data.rows.iloc[self._at]
        self.columns = rows.table.columns
        self.X = rows.table.values[self._at]
        self.latency_s = frame["latency_s"].to_numpy()
        self.names, self.task = np.unique(frame["task"].to_numpy(dtype=str), return_inverse=True)
        self.workloads = frame["workload"].to_numpy(dtype=str)
        self.sms = frame["sms_granted"].to_numpy()
        self.rows_of = [np.flatnonzero(self.task == i) for i in range(len(self.names))]
        best = np.array([self.latency_s[rows].min() for rows in self.rows_of])
        with np.errstate(divide="ignore", invalid="ignore"):
            log_score = np.log(best[self.task] / self.latency_s)
        self.log_score = np.where(np.isfinite(log_score), np.maximum(log_score, LOWEST), LOWEST)
        self._own = [i for i, column in enumerate(self.columns) if column.group in ("config", "launch")]

    def folds(self, count: int, seed: int) -> Any:
        """``(n,)`` the group that holds out each row; workloads of one shape are in one group."""
        shapes, shape = np.unique([Workload.parse(w).shape.name for w in self.workloads], return_inverse=True)
        return (np.random.default_rng(seed).permutation(len(shapes)) % count)[shape]

    def of_recorded(self) -> list[Any]:
        """The median of each column of kernels over the recorded kernels of each task."""
        return [self._median(self.X[rows]) for rows in self.rows_of]

    def of_space(self, configs: int) -> list[Any]:
        """The median of each column of kernels over random configs of each task's design space."""
        (source,) = open_sources(("metaschedule",))
        names, rng = [column.name for column in self.columns], np.random.default_rng(0)
        medians: dict[tuple[str, int], Any] = {}
        distinct = np.unique(self.workloads)
        for name in track(distinct, "drawing", len(distinct)):
            space = KernelSpace(source.space(Workload.parse(name), "cuda"), *self.platforms, columns=names)
            drawn = space.draw(configs, rng).features
            for i, platform in enumerate(self.platforms):
                medians[name, platform.sms_granted] = self._median(drawn[:, i])
        return [medians[self.workloads[rows[0]], self.sms[rows[0]]] for rows in self.rows_of]

    def relative_to(self, medians: Sequence[Any]) -> Any:
        """``(n, d)`` columns of kernels as distances from these medians, one a task; others as they are."""
        X = self.X.copy()
        X[:, self._own] -= np.array(medians)[self.task]
        return X

    def scores(self, predicted: Any) -> dict[str, float]:
        """Score@1 of each task in which a kernel ran."""
        ran = {
            n: r for n, r in zip(self.names, self.rows_of, strict=True) if self.latency_s[r].min() < np.inf
        }
        return {name: score_at_k(predicted[rows], self.latency_s[rows], 1) for name, rows in ran.items()}

    def workload_of(self, task: str) -> str:
        """The workload of a task."""
        return str(self.workloads[self.rows_of[list(self.names).index(task)][0]])

    def _median(self, X: Any) -> Any:
        own = pd.DataFrame(X[:, self._own])
        return own.median().fillna(0.0).to_numpy()


def stack(tasks: Tasks, folds: Any) -> Any:
    """What the learner that ships predicts, out of fold."""

    def predict(known: Any, held: Any) -> Any:
        model = make_model(STACK, tasks.columns)
        model.fit(tasks.X[known], tasks.latency_s[known], tasks.names[tasks.task[known]])
        return model.predict(tasks.X[held]).score

    return out_of_fold(folds, predict)


def trees(tasks: Tasks, X: Any, folds: Any) -> Any:
    """What boosted trees of the log score predict, out of fold."""
    settings = {
        "objective": "reg:squarederror",
        "eta": 0.05,
        "max_depth": 6,
        "min_child_weight": 20,
        "subsample": 0.8,
        "colsample_bynode": 0.5,
        "nthread": 1,
    }

    def predict(known: Any, held: Any) -> Any:
        booster = xgboost.train(settings, xgboost.DMatrix(X[known], label=tasks.log_score[known]), 400)
        return booster.predict(xgboost.DMatrix(X[held]))

    return out_of_fold(folds, predict)


def out_of_fold(folds: Any, predict: Callable[[Any, Any], Any]) -> Any:
    """``(n,)`` predictions of each row by what learned from the other folds."""
    predicted = np.empty(len(folds))
    for fold in np.unique(folds):
        predicted[folds == fold] = predict(folds != fold, folds == fold)
    return predicted


def mean_of(tasks: Tasks, *predictions: Any) -> Any:
    """The mean of predictions that have the same mean and deviation in each task."""
    total = np.zeros(len(tasks.X))
    for predicted in predictions:
        for rows in tasks.rows_of:
            total[rows] += (predicted[rows] - predicted[rows].mean()) / (predicted[rows].std() + 1e-9)
    return total


def line(name: str, seed: int, scores: Mapping[str, Mapping[str, float]], tasks: Tasks) -> dict[str, Any]:
    """Score@1 of a model, and its difference to the stack with a 95 % bootstrap over workloads."""
    found = pd.DataFrame({"own": scores[name], "stack": scores[STACK]})
    difference = (found["own"] - found["stack"]).to_numpy()
    low, high = cluster_bootstrap_interval(difference, found.index.map(tasks.workload_of).to_numpy())
    return {
        "model": name,
        "seed": seed,
        "mean": found["own"].mean(),
        "median": found["own"].median(),
        "to the stack": difference.mean(),
        "low": low,
        "high": high,
    }


if __name__ == "__main__":
    main()
