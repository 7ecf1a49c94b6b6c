"""How good is the best of 20 measurements on a device never measured? See README.md here."""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pandas as pd
from rich.progress import track

from costmodel.dataset import CardHeader, build_dataset, load_dataset
from costmodel.features import FeatureTable, extract
from costmodel.learners import WeightedConsensus, XGBoostLearner
from costmodel.metrics import cluster_bootstrap_interval
from costmodel.transfer import (
    FromScratch,
    JoinedTask,
    PredictedOptimum,
    Residual,
    RidgeOnSources,
    SimilarSources,
    TransferModel,
    choose_first,
)

FIRST, THEN = 10, 10
HEADER = CardHeader(
    "Kernel Tuner", "For an experiment.", "See its DOI.", "None.", "MIT", "10.5281/zenodo.15364124"
)


@dataclass(frozen=True)
class Method:
    """What chooses the first measurements, and what ranks the rest.

    Attributes:
        make: An unfitted model for a feature table.
        optimism: See ``choose_first``; None for first measurements at random.
        adapts: Whether the first measurements sharpen the list.
    """

    make: Callable[[FeatureTable, int], TransferModel]
    optimism: float | None = 0.0
    adapts: bool = True


def tasks(table: FeatureTable) -> tuple[int, ...]:
    return table.indices("workload", "platform")


def consensus(table: FeatureTable, seed: int) -> Residual:
    return Residual(WeightedConsensus(tasks(table)))


METHODS = {
    "random 10, then consensus": Method(consensus, optimism=None, adapts=False),
    "consensus, top 20": Method(consensus, adapts=False),
    "ridge on sources": Method(lambda table, seed: RidgeOnSources(tasks(table))),
    "random 10, then ridge on sources": Method(
        lambda table, seed: RidgeOnSources(tasks(table)), optimism=None
    ),
    "from scratch": Method(lambda table, seed: FromScratch(), optimism=None),
    "XGBoost residual": Method(
        lambda table, seed: Residual(XGBoostLearner(table.index("log2_roofline_s"), rounds=200, seed=seed))
    ),
    "consensus residual, best first": Method(consensus),
    "consensus residual, optimism 0.5": Method(consensus, optimism=0.5),
    "consensus residual, optimism 1": Method(consensus, optimism=1.0),
    "TLA1: joined task (XGBoost)": Method(
        lambda table, seed: JoinedTask(XGBoostLearner(table.index("log2_roofline_s"), rounds=200, seed=seed))
    ),
    "TLA2: predicted optimum": Method(lambda table, seed: Residual(PredictedOptimum(tasks(table)))),
    "similar sources (2), ridge": Method(
        lambda table, seed: SimilarSources(RidgeOnSources(tasks(table)), tasks(table), k=2)
    ),
}


def main() -> None:
    """Leave each device of each kernel out, spend 20 measurements on it, and compare."""
    arguments = parse()
    found: list[dict[str, object]] = []
    for folder in sorted(path for path in arguments.data.glob("*/*") if any(path.glob("*.json.gz"))):
        table, rows = read(folder)
        cases = [(device, seed) for device in rows["device"].unique() for seed in range(arguments.seeds)]
        for device, seed in track(cases, f"{folder.parent.name}/{folder.name}"):
            case = {"suite": folder.parent.name, "kernel": folder.name}
            found += [case | each for each in search_device(table, rows, device, seed, arguments.configs)]
    results = pd.DataFrame(found)
    summary = summarise(results)
    print(summary.to_string())
    if arguments.json:
        document = {"summary": summary.reset_index().to_dict("records"), "cases": found}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--configs", type=int, default=2000, help="configs drawn of each space, per seed")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def read(folder: Path) -> tuple[FeatureTable, pd.DataFrame]:
    """Features and rows of one kernel of one suite, on all its devices."""
    with TemporaryDirectory() as built:
        build_dataset(sorted(folder.glob("*.json.gz")), Path(built) / "data", header=HEADER)
        dataset = load_dataset(Path(built) / "data")
    rows = dataset.rows
    platforms = [dataset.platforms[i] for i in rows["platform"]]
    return extract([dataset.candidates[i] for i in rows["candidate"]], platforms), rows


def search_device(
    table: FeatureTable, rows: pd.DataFrame, device: str, seed: int, configs: int
) -> Iterator[dict[str, object]]:
    """Best of the measurements that each method makes on one device, relative to the best of the configs."""
    rng = np.random.default_rng(seed)
    kept = rows["candidate"].isin(rng.permutation(rows["candidate"].unique())[:configs]).to_numpy()
    y, names = rows["latency_s"].to_numpy(), rows["task"].to_numpy()
    out = (rows["device"] == device).to_numpy()
    sources, target = np.flatnonzero(kept & ~out), np.flatnonzero(kept & out)
    X_new, y_new = table.values[target], y[target]
    for name, method in METHODS.items():
        model = method.make(table, seed).fit(table.values[sources], y[sources], names[sources])
        measured = spend(method, model, X_new, y_new, rng)
        best = y_new.min()
        yield {
            "device": device,
            "seed": seed,
            "method": name,
            "score_10": float(best / y_new[measured[:FIRST]].min()),
            "score_20": float(best / y_new[measured].min()),
        }


def spend(
    method: Method, model: TransferModel, X: np.ndarray, y: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Positions of the configs that are measured, in order."""
    if method.optimism is None:
        first = rng.permutation(len(y))[:FIRST]
    else:
        first = choose_first(model, X, FIRST, optimism=method.optimism)
    predictor = model.adapt(X[first], y[first]) if method.adapts else model
    left = np.setdiff1d(np.arange(len(y)), first)
    order = np.argsort(-predictor.predict(X[left]).score, kind="stable")
    return np.concatenate([first, left[order[:THEN]]])


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Median, tail and mean over cases, with an interval of the mean that draws (kernel, device) cases."""
    lines = {}
    for name, group in results.groupby("method", sort=False):
        case = (group["suite"] + group["kernel"] + group["device"]).to_numpy()
        mean_by_case = group.groupby(["suite", "kernel", "device"])["score_20"].mean()
        low, high = cluster_bootstrap_interval(group["score_20"].to_numpy(), case)
        by_suite = group.groupby("suite")["score_20"].median()
        lines[name] = {
            "after 10, median": group["score_10"].median(),
            "after 20, median": mean_by_case.median(),
            "p10": group["score_20"].quantile(0.1),
            "mean": group["score_20"].mean(),
            "95 % from": low,
            "to": high,
            **{f"median, {suite}": value for suite, value in by_suite.items()},
        }
    summary = pd.DataFrame(lines).T.round(3)
    summary.index.name = "method"
    return summary


if __name__ == "__main__":
    main()
