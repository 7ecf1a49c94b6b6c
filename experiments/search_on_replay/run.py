"""How many measurements each search needs, replayed on the shipped dataset: see README.md here."""

import json
import logging
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import optuna
import pandas as pd
from matplotlib.ticker import StrMethodFormatter
from optuna.trial import TrialState
from rich.progress import track

from costmodel.dataset import load_dataset, shipped_dataset
from costmodel.evaluation import train
from costmodel.metrics import n_eps
from costmodel.search import ModelSampler, Pool, PoolTPESampler, RandomOrderSampler, SpaceSampler
from costmodel.transfer import TransferModel, make_model

HERE = Path(__file__).parent
BUDGETS = (8, 32, 132)
SEEDS = (0, 1, 2)
FIRST = 16  # measurements that `costmodel tune` makes unless told otherwise
LEARNERS = ("kernel-ridge", "xgboost", "consensus")


def main() -> None:
    """Search every workload at each SM budget with each sampler, and compare."""
    workloads = sorted(load_dataset(shipped_dataset()).rows["workload"].unique())
    with ProcessPoolExecutor() as pool:
        found = track(pool.map(search_workload, workloads), "searching", total=len(workloads))
        results = pd.DataFrame([row for rows in found for row in rows])
    table = summary(results)
    print(table.to_string())
    (HERE / "result.json").write_text(json.dumps(table.to_dict(orient="index"), indent=2) + "\n")
    draw(results, HERE / "best_so_far.png")


def search_workload(workload: str) -> list[dict[str, object]]:
    """Search one workload, held out of training, at each SM budget."""
    logging.getLogger("optuna").setLevel(logging.WARNING)
    dataset = load_dataset(shipped_dataset())
    models = {name: train(dataset, partial(make_model, name), hold_out=[workload]).model for name in LEARNERS}
    found: list[dict[str, object]] = []
    for position, platform in enumerate(dataset.platforms):
        if platform.sms_granted not in BUDGETS:
            continue
        rows = dataset.rows
        rows = rows[(rows["workload"] == workload) & (rows["platform"] == position)]
        pool = Pool([dataset.candidates[i] for i in rows["candidate"]], platform)
        latency_s = rows["latency_s"].to_numpy()
        for name, make in samplers(pool, models).items():
            for seed in SEEDS:
                order = search(make(seed), latency_s)
                found.append(
                    {
                        "sampler": name,
                        "workload": workload,
                        "sms": platform.sms_granted,
                        "seed": seed,
                        "best_so_far": latency_s.min() / np.minimum.accumulate(order),
                        "n_5": n_eps(order, 0.05),
                        "n_1": n_eps(order, 0.01),
                    }
                )
    return found


def samplers(pool: Pool, models: dict[str, TransferModel]) -> dict[str, Callable[[int], SpaceSampler]]:
    """Each sampler by name, as a function of a seed."""
    return {
        **{
            f"shortlist, {name}": lambda seed, model=model: ModelSampler(pool, model, seed=seed)
            for name, model in models.items()
        },
        "shortlist, nothing known": lambda seed: ModelSampler(pool, seed=seed),
        "Optuna TPE": lambda seed: PoolTPESampler(pool, seed=seed),
        "random order": lambda seed: RandomOrderSampler(pool, seed=seed),
    }


def search(sampler: SpaceSampler, latency_s: np.ndarray) -> np.ndarray:
    """Latencies in the order in which the sampler measures them, until the best is found."""
    study, order = optuna.create_study(sampler=sampler), []
    while not order or len(order) < FIRST or min(order) > latency_s.min():
        trial = study.ask(sampler.space.distributions)
        order.append(latency_s[sampler.space.position(trial.params)])
        failed = np.isinf(order[-1])
        study.tell(trial, None if failed else order[-1], state=TrialState.FAIL if failed else None)
        if len(order) == len(latency_s):
            break
    return np.array(order)


def summary(results: pd.DataFrame) -> pd.DataFrame:
    """One row a sampler: measurements needed, and what 16 of them give."""
    at_first = results["best_so_far"].map(lambda curve: curve[:FIRST][-1])
    grouped = results.assign(score_16=at_first).groupby("sampler", sort=False)
    return pd.DataFrame(
        {
            "within 5 %: median": grouped["n_5"].median(),
            "within 5 %: p90": grouped["n_5"].quantile(0.9),
            "within 1 %: median": grouped["n_1"].median(),
            "within 1 %: p90": grouped["n_1"].quantile(0.9),
            "within 5 % after 16": grouped["score_16"].apply(lambda s: (s >= 1 / 1.05).mean()).round(3),
            "score after 16, p10": grouped["score_16"].quantile(0.1).round(3),
        }
    )


def draw(results: pd.DataFrame, path: Path) -> None:
    """Mean best score so far over the measurements made."""
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for name, group in results.groupby("sampler", sort=False):
        curves = np.array([np.resize(np.append(c, np.ones(64)), 64) for c in group["best_so_far"]])
        axes.plot(np.arange(1, 65), curves.mean(axis=0), label=name)
    axes.set(xlabel="measurements", ylabel="mean score of the best so far", xlim=(1, 64))
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:.0f}"))
    axes.grid(alpha=0.3)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
