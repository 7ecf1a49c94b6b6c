"""Does transfer ever cost more measurements than learning from nothing? See README.md here."""

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

from costmodel.dataset import load_dataset
from costmodel.features._table import FeatureTable
from costmodel.learners import KernelRidge
from costmodel.learners._statistics import cluster_bootstrap_interval
from costmodel.transfer import LearningRows, TransferModel
from costmodel.transfer.models._guarded import Guarded
from costmodel.transfer.models._residual import FromScratch, Residual

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

EPS = 0.05  # a search ends when it is within 5 % of the best
ALLOWED = 1.1  # measurements, relative to learning from nothing, that are no harm
MOST = 1.25  # the most that a search was to need, relative to learning from nothing
SOURCE_ROWS = 6000
LANDMARKS = 400
MISLEADING = "all that mislead"  # the four spoilt sources together
SCRATCH, AGAIN = "from scratch", "from scratch again"


def main() -> None:
    """Replay the search of each held-out task after training on honest and on spoilt sources."""
    arguments = parse()
    dataset = load_dataset(arguments.dataset)
    data = LearningRows.of(dataset)
    rows, table = data.rows, data.table
    workloads = sorted(rows["workload"].unique())[arguments.first :: arguments.step]
    runs = [
        run
        for workload in track(workloads, "searching")
        for run in search_workload(rows, table, workload, arguments)
    ]
    tasks = compare(pd.DataFrame(runs))
    summary = summarise(tasks)
    print(summary.to_string())
    if arguments.json:
        document = {
            "summary": summary.reset_index().to_dict("records"),
            "tasks": tasks.round(3).to_dict("records"),
        }
        text = json.dumps(document, indent=1)
        on_a_line = re.sub(r"\[([^][{}]+)\]", lambda ratios: f"[{' '.join(ratios[1].split())}]", text)
        arguments.json.write_text(on_a_line + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--first", type=int, help="position of the first workload by name")
    parser.add_argument("--step", type=int, help="every how many workloads one is held out")
    parser.add_argument("--sms", type=int, nargs="+")
    parser.add_argument("--seeds", type=int, help="fits")
    parser.add_argument("--orders", type=int, help="orders of ties for each fit")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def search_workload(
    rows: pd.DataFrame, table: FeatureTable, workload: str, arguments: argparse.Namespace
) -> Iterator[dict[str, Any]]:
    """Measurements that each task of one workload needs, by source, model, fit and order of ties."""
    out = (rows["workload"] == workload).to_numpy()
    y, tasks = rows["latency_s"].to_numpy(), rows["task"].to_numpy()
    budgets = rows["sms_granted"].to_numpy()
    for seed in range(arguments.seeds):
        rng = np.random.default_rng(seed)
        kept = rng.permutation(np.flatnonzero(~out))[:SOURCE_ROWS]
        X = table.values[kept]
        models: dict[tuple[str, str], TransferModel] = {
            ("", name): FromScratch().fit(X, y[kept], tasks[kept]) for name in (SCRATCH, AGAIN)
        }
        for source, spoil in SOURCES.items():
            spoilt = spoil(y[kept], tasks[kept], rng)
            unguarded = prior(table, seed).fit(X, spoilt, tasks[kept])
            guarded = guard(table, seed).fit(X, spoilt, tasks[kept])
            models |= {(source, "unguarded"): unguarded, (source, "guarded"): guarded}
        for sms, ((source, name), model) in product(arguments.sms, models.items()):
            at = np.flatnonzero(out & (budgets == sms))
            # Each fit has its own orders, the same for all models but the second baseline.
            first = arguments.orders * (seed + arguments.seeds * (name == AGAIN))
            orders = range(first, first + arguments.orders)
            if name == "unguarded":  # no ties, so that all orders give the same
                needed = [replay(model, table.values[at], y[at], first)] * len(orders)
            else:
                needed = [replay(model, table.values[at], y[at], order) for order in orders]
            yield {"workload": workload, "sms": sms, "source": source, "model": name, "needed": needed}


def prior(table: FeatureTable, seed: int) -> Residual:
    return Residual(KernelRidge(table.index("log2_roofline_s"), landmarks=LANDMARKS, seed=seed))


def guard(table: FeatureTable, seed: int) -> Guarded:
    groups, bound = table.indices("workload"), table.index("log2_roofline_s")
    return Guarded(prior(table, seed), FromScratch(), groups, bound)


def replay(model: TransferModel, X: np.ndarray, y: np.ndarray, order: int) -> int:
    """Measurements until within EPS of the best: the best proposal is measured next, ties at random."""
    ties = np.random.default_rng(order).random(len(y))
    seen: list[int] = []
    while not seen or y[seen].min() > y.min() * (1.0 + EPS):
        score = model.propose(X[seen], y[seen]).predict(X).score.copy()
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


def compare(runs: pd.DataFrame) -> pd.DataFrame:
    """Mean measurements of each task, and each run beside that from scratch with the same ties."""
    groups = runs.groupby(["source", "model", "workload", "sms"], sort=False)["needed"]
    needed = {key: np.concatenate(counts.to_list()) for key, counts in groups}
    lines = []
    for (source, model, workload, sms), counts in needed.items():
        if model == SCRATCH:
            continue
        alone = needed["", SCRATCH, workload, sms]
        lines.append(
            {
                "source": source,
                "model": model,
                "workload": workload,
                "sms": sms,
                "needed": counts.mean(),
                "from scratch": alone.mean(),
                "single ratios": (counts / alone).round(3).tolist(),
                "single more": (counts - alone).tolist(),
            }
        )
    return pd.DataFrame(lines)


def summarise(tasks: pd.DataFrame) -> pd.DataFrame:
    """No-harm rate and cost, by source and model: of means over the runs of a task, and of single runs."""
    tasks = tasks.assign(
        ratio=tasks["needed"] / tasks["from scratch"], more=tasks["needed"] - tasks["from scratch"]
    )
    misleading = tasks[~tasks["source"].isin(("", "honest"))].assign(source=MISLEADING)
    lines = {
        key: line(group)
        for those in (tasks, misleading)
        for key, group in those.groupby(["source", "model"], sort=False)
    }
    summary = pd.DataFrame(lines).T.round(3)
    summary.index.names = ["source", "model"]
    return summary


def line(tasks: pd.DataFrame) -> dict[str, float]:
    """No-harm rate and cost of one model with one kind of source."""
    harmless = (tasks["ratio"] <= ALLOWED).to_numpy(dtype=float)
    low, high = cluster_bootstrap_interval(harmless, tasks["workload"].to_numpy())
    single, more = (np.concatenate(tasks[name].to_list()) for name in ("single ratios", "single more"))
    return {
        "no-harm rate": harmless.mean(),
        "95 % from": low,
        "to": high,
        "or one more": ((tasks["ratio"] <= ALLOWED) | (tasks["more"] <= 1.0)).mean(),
        "measurements": tasks["needed"].mean(),
        "from scratch": tasks["from scratch"].mean(),
        "ratio, p90": tasks["ratio"].quantile(0.9),
        "worst": tasks["ratio"].max(),
        "single no-harm rate": (single <= ALLOWED).mean(),
        "single above most": (single > MOST).mean(),
        "single above most, by more than one": ((single > MOST) & (more > 1)).mean(),
        **{f"single p{q}": np.quantile(single, q / 100.0) for q in (50, 90, 99)},
        "single worst": single.max(),
    }


if __name__ == "__main__":
    main()
