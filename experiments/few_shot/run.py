"""How good is the best of 20 measurements on a device never measured? See README.md here."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.progress import track

from costmodel.dataset import Dataset
from costmodel.features._table import FeatureTable
from costmodel.files import write_json
from costmodel.learners import XGBoostLearner
from costmodel.learners._source_rules import WeightedConsensus
from costmodel.learners._statistics import cluster_bootstrap_interval
from costmodel.transfer import LearningRows, TransferModel, make_model, shortlist
from costmodel.transfer._plan import choose_first
from costmodel.transfer.models._residual import FromScratch, Residual
from costmodel.transfer.models._ridge_on_sources import RidgeOnSources
from costmodel.transfer.models._source_mixture import SourceMixture

sys.path.append(str(Path(__file__).parents[1]))
from kit.caches import find_kernels, leave_devices_out, read_kernel
from options import parse_options

from costmodel.arrays import Positions

FIRST, THEN = 10, 10
CASE = ["suite", "kernel", "device"]

Spend = Callable[[TransferModel, NDArray[np.float64], NDArray[np.float64], int], Positions]


@dataclass(frozen=True)
class Method:
    """What is measured, in order, and the settings that it is tried with.

    Attributes:
        make: An unfitted model for a feature table.
        spend: Positions of the configs to measure, in order, for a fitted model, features, latencies that are
            looked at only where measured, and a seed.
        settings: Attributes of the model; those that are best on one suite are judged on the other.
        draws: Whether a seed changes anything.
    """

    make: Callable[[FeatureTable], TransferModel]
    spend: Spend
    settings: tuple[dict[str, float], ...] = ({},)
    draws: bool = False


def top_20(model: TransferModel, X: np.ndarray, y: np.ndarray, seed: int) -> Positions:
    """The 20 best scores."""
    return np.argsort(-model.predict(X).score, kind="stable")[: FIRST + THEN]


def own_list(model: TransferModel, X: np.ndarray, y: np.ndarray, seed: int) -> Positions:
    """A list of 20, made before anything is measured."""
    return shortlist(model, X, FIRST + THEN, seed=seed)


def sharpened(
    model: TransferModel, X: np.ndarray, y: np.ndarray, seed: int, *, optimism: float = 0.0
) -> Positions:
    """Ten best, or ten with optimism, then the ten best scores once adapted."""
    first = choose_first(model, X, FIRST, optimism=optimism)
    return then_best(model, X, y, first)


def after_random(model: TransferModel, X: np.ndarray, y: np.ndarray, seed: int) -> Positions:
    """Ten at random, then the ten best scores once adapted."""
    return then_best(model, X, y, np.random.default_rng(seed).permutation(len(y))[:FIRST])


def then_best(model: TransferModel, X: np.ndarray, y: np.ndarray, first: Positions) -> Positions:
    left = np.setdiff1d(np.arange(len(y)), first)
    score = model.adapt(X[first], y[first]).predict(X[left]).score
    return np.concatenate([first, left[np.argsort(-score, kind="stable")[:THEN]]])


def listed_twice(model: TransferModel, X: np.ndarray, y: np.ndarray, seed: int) -> Positions:
    """A list of ten, then a list of ten from what these leave to be believed."""
    first = shortlist(model, X, FIRST, seed=seed)
    left = np.setdiff1d(np.arange(len(y)), first)
    best_s = float(y[first].min()) if np.isfinite(y[first]).any() else None
    then = shortlist(model.adapt(X[first], y[first]), X[left], THEN, best_s=best_s, seed=seed)
    return np.concatenate([first, left[then]])


def tasks(table: FeatureTable) -> tuple[int, ...]:
    return table.indices("workload", "platform")


def consensus(table: FeatureTable) -> TransferModel:
    return Residual(WeightedConsensus(tasks(table)))


def ridge(table: FeatureTable) -> TransferModel:
    return RidgeOnSources(tasks(table))


def mixture(table: FeatureTable) -> TransferModel:
    return make_model("source-mixture", table.columns)


def trees(table: FeatureTable) -> XGBoostLearner:
    return XGBoostLearner(table.index("log2_roofline_s"), rounds=200)


def grid(**values: tuple[float, ...]) -> tuple[dict[str, float], ...]:
    return tuple(dict(zip(values, each, strict=True)) for each in product(*values.values()))


RIDGE = grid(std=(1.0, 2.0), noise=(0.05, 0.1))
MIXTURE = grid(mixing=(0.25, 0.35, 0.5))
METHODS = {
    "consensus, top 20": Method(consensus, top_20),
    "ridge on sources": Method(ridge, sharpened, RIDGE),
    "random 10, then ridge on sources": Method(ridge, after_random, RIDGE, draws=True),
    "consensus residual": Method(consensus, sharpened),
    "consensus residual, optimism 1": Method(consensus, partial(sharpened, optimism=1.0)),
    "from scratch": Method(lambda table: FromScratch(), after_random, draws=True),
    "XGBoost residual": Method(lambda table: Residual(trees(table)), sharpened),
    "mixture without kin, listed twice": Method(
        lambda table: SourceMixture(tasks(table)), listed_twice, MIXTURE, draws=True
    ),
    "source mixture, top 20": Method(mixture, top_20),
    "source mixture, one list of 20": Method(mixture, own_list, MIXTURE, draws=True),
    "source mixture, listed twice": Method(mixture, listed_twice, MIXTURE, draws=True),
}


def main() -> None:
    """Leave each device of each kernel out, spend 20 measurements on it, and compare."""
    arguments = parse()
    methods = {name: METHODS[name] for name in arguments.methods or METHODS}
    found: list[dict[str, Any]] = []
    for folder in find_kernels(arguments.data):
        kernel, dataset = {"suite": folder.parent.name, "kernel": folder.name}, read_kernel(folder)
        found += [kernel | each for each in search(dataset, methods, arguments.seeds, folder.name)]
    results = cross_fit(pd.DataFrame(found))
    summary = summarise(results)
    print(summary.to_string())
    if arguments.json:
        cases = results.groupby(["method", *CASE], sort=False)[["score_10", "score_20"]].mean().round(4)
        document = {
            "summary": summary.reset_index().to_dict("records"),
            "cases": cases.reset_index().to_dict("records"),
        }
        write_json(arguments.json, document)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--seeds", type=int)
    parser.add_argument("--methods", nargs="*", choices=METHODS, metavar="METHOD")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def search(dataset: Dataset, methods: dict[str, Method], seeds: int, kernel: str) -> Iterator[dict[str, Any]]:
    """Results of each method on each device, which is held out with its near-twin."""
    data = LearningRows.of(dataset)
    table = data.table
    for fold in track(list(leave_devices_out(data.rows)), kernel):
        X, y = table.values[fold.test], data.latency_s[fold.test]
        for name, method in methods.items():
            model = data.fit(method.make(table), fold.train)
            for found in try_settings(method, model, X, y, seeds):
                yield {"method": name, "device": fold.held_out, **found}


def try_settings(
    method: Method, model: TransferModel, X: np.ndarray, y: np.ndarray, seeds: int
) -> Iterator[dict[str, Any]]:
    """Best of 10 and of 20 measurements relative to the best of all configs, for each setting and seed."""
    best = y.min()
    for number, settings in enumerate(method.settings):
        tuned = copy(model)
        for name, value in settings.items():
            setattr(tuned, name, value)
        for seed in range(seeds if method.draws else 1):
            ordered = y[method.spend(tuned, X, y, seed)]
            scores = {f"score_{k}": float(best / ordered[:k].min()) for k in (FIRST, FIRST + THEN)}
            yield {"setting": number, "seed": seed, **scores}


def cross_fit(results: pd.DataFrame) -> pd.DataFrame:
    """Of each method, on each suite, the rows of the setting that is best on average on the other suites."""
    kept = []
    for (_, suite), group in results.groupby(["method", "suite"], sort=False):
        others = results[(results["method"] == group["method"].iloc[0]) & (results["suite"] != suite)]
        chosen = others.groupby("setting")[["score_10", "score_20"]].mean().mean(axis=1).idxmax()
        kept.append(group[group["setting"] == chosen])
    return pd.concat(kept, ignore_index=True)


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Median, tail and mean over cases, with an interval of the mean that draws (kernel, device) cases."""
    lines = {}
    baseline = by_case(results[results["method"] == "ridge on sources"])
    for name, group in results.groupby("method", sort=False):
        cases = by_case(group)
        low, high = cluster_bootstrap_interval(cases["score_20"].to_numpy(), np.arange(len(cases)))
        by_suite = cases["score_20"].groupby("suite").median()
        lines[name] = {
            "after 10, median": cases["score_10"].median(),
            "after 10, p10": cases["score_10"].quantile(0.1),
            "after 20, median": cases["score_20"].median(),
            "p10": cases["score_20"].quantile(0.1),
            "mean": cases["score_20"].mean(),
            "95 % from": low,
            "to": high,
            **{f"median, {suite}": value for suite, value in by_suite.items()},
            **against(cases["score_20"], baseline),
        }
    summary = pd.DataFrame(lines).T.round(3)
    summary.index.name = "method"
    return summary


def by_case(results: pd.DataFrame) -> pd.DataFrame:
    return results.groupby(CASE)[["score_10", "score_20"]].mean()


def against(score: "pd.Series[float]", baseline: pd.DataFrame) -> dict[str, float]:
    """Mean paired difference from ridge on sources over cases, and its interval."""
    if baseline.empty:
        return {}
    difference = (score - baseline["score_20"]).to_numpy()
    low, high = cluster_bootstrap_interval(difference, np.arange(len(difference)))
    return {"over ridge": float(difference.mean()), "over ridge, from": low, "over ridge, to": high}


if __name__ == "__main__":
    main()
