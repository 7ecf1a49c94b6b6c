"""Does transfer ever cost more measurements than learning from nothing? See README.md here."""

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track

from costmodel.dataset import load_dataset
from costmodel.features import FeatureTable, extract
from costmodel.learners import KernelRidge
from costmodel.metrics import cluster_bootstrap_interval
from costmodel.transfer import FromScratch, Guarded, Predictor, Residual, TransferModel

EPS = 0.05  # a search ends when it is within 5 % of the best
ALLOWED = 1.1  # measurements, relative to learning from nothing, that are no harm
SOURCE_ROWS = 6000
LANDMARKS = 400


def main() -> None:
    """Replay the search of each held-out task after training on honest and on spoilt sources."""
    arguments = parse()
    dataset = load_dataset(arguments.dataset)
    rows = dataset.rows
    table = extract(
        [dataset.candidates[i] for i in rows["candidate"]], [dataset.platforms[i] for i in rows["platform"]]
    )
    every = sorted(rows["workload"].unique())
    workloads = every[:: max(1, len(every) // (arguments.workloads or len(every)))]
    found = [
        result
        for workload in track(workloads, "searching")
        for result in search_workload(rows, table, workload, arguments.sms, arguments.seeds)
    ]
    results = pd.DataFrame(found)
    summary = summarise(results)
    print(summary.to_string())
    if arguments.json:
        document = {"summary": summary.reset_index().to_dict("records"), "tasks": found}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, default=Path("datasets/h100-sm-budgets"))
    parser.add_argument("--workloads", type=int, help="about so many, evenly by name; all if not given")
    parser.add_argument("--sms", type=int, nargs="+", default=[8, 48, 132])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def search_workload(
    rows: pd.DataFrame, table: FeatureTable, workload: str, budgets: list[int], seeds: int
) -> Iterator[dict[str, object]]:
    """Mean measurements that each task of one workload needs, by source and model."""
    out = (rows["workload"] == workload).to_numpy()
    X, y, tasks = table.values, rows["latency_s"].to_numpy(), rows["task"].to_numpy()
    at = {sms: np.flatnonzero(out & (rows["sms_granted"] == sms).to_numpy()) for sms in budgets}
    needs: dict[tuple[str, str, int], list[int]] = {}
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        kept = rng.permutation(np.flatnonzero(~out))[:SOURCE_ROWS]
        scratch = FromScratch().fit(X[kept], y[kept], tasks[kept])
        models: list[tuple[str, str, TransferModel]] = [("", "from scratch", scratch)]
        for name, spoil in SOURCES.items():
            source = X[kept], spoil(y[kept], tasks[kept], rng), tasks[kept]
            guarded = Guarded(prior(table, seed), FromScratch(), table.indices("workload")).fit(*source)
            models += [(name, "unguarded", guarded.model), (name, "guarded", guarded)]
        for sms, task in at.items():
            for source_name, model_name, model in models:
                needed = replay(model, X[task], y[task], seed)
                needs.setdefault((source_name, model_name, sms), []).append(needed)
    for (source_name, model_name, sms), values in needs.items():
        if source_name:
            yield {
                "workload": workload,
                "sms": sms,
                "source": source_name,
                "model": model_name,
                "needed": float(np.mean(values)),
                "from_scratch": float(np.mean(needs["", "from scratch", sms])),
            }


def prior(table: FeatureTable, seed: int) -> Residual:
    return Residual(KernelRidge(table.index("log2_roofline_s"), landmarks=LANDMARKS, seed=seed))


def replay(model: TransferModel, X: np.ndarray, y: np.ndarray, seed: int) -> int:
    """Measurements until within EPS of the best: the best predicted is measured next, ties at random."""
    ties = np.random.default_rng(seed).random(len(y))
    seen: list[int] = []
    while not seen or y[seen].min() > y.min() * (1.0 + EPS):
        predictor: Predictor = model.adapt(X[seen], y[seen]) if seen else model
        score = predictor.predict(X).score.copy()
        score[seen] = -np.inf
        seen.append(int(np.lexsort([ties, -score])[0]))
    return len(seen)


def honest(y: np.ndarray, tasks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return y


def shuffled(y: np.ndarray, tasks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Labels change places within each task."""
    spoilt = y.copy()
    for task in np.unique(tasks):
        spoilt[tasks == task] = rng.permutation(y[tasks == task])
    return spoilt


def wrong_device(y: np.ndarray, tasks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Every config behaves as on a device with other strengths: half of each log latency is another's."""
    spoilt = shuffled(y, tasks, rng)
    return np.exp(0.5 * np.log(y) + 0.5 * np.log(spoilt))


def wrong_unit(y: np.ndarray, tasks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A third of the tasks is in milliseconds."""
    names = np.unique(tasks)
    return np.where(np.isin(tasks, rng.permutation(names)[: len(names) // 3]), 1000.0 * y, y)


def reversed_order(y: np.ndarray, tasks: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The best config of each task has the latency of the worst, and so on."""
    spoilt = y.copy()
    for task in np.unique(tasks):
        ran = (tasks == task) & np.isfinite(y)
        if ran.any():
            spoilt[ran] = y[ran].min() * y[ran].max() / y[ran]
    return spoilt


SOURCES: dict[str, Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]] = {
    "honest": honest,
    "shuffled labels": shuffled,
    "wrong device": wrong_device,
    "wrong unit": wrong_unit,
    "reversed order": reversed_order,
}


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """No-harm rate and cost, by source and model."""
    results = results.assign(ratio=results["needed"] / results["from_scratch"])
    lines = {}
    for key, group in results.groupby(["source", "model"], sort=False):
        harmless = (group["ratio"] <= ALLOWED).to_numpy(dtype=float)
        low, high = cluster_bootstrap_interval(harmless, group["workload"].to_numpy())
        lines[key] = {
            "no-harm rate": harmless.mean(),
            "95 % from": low,
            "to": high,
            "measurements": group["needed"].mean(),
            "from scratch": group["from_scratch"].mean(),
            "ratio, p90": group["ratio"].quantile(0.9),
            "worst": group["ratio"].max(),
        }
    summary = pd.DataFrame(lines).T.round(3)
    summary.index.names = ["source", "model"]
    return summary


if __name__ == "__main__":
    main()
