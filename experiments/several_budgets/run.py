"""One kernel, or few, for all SM budgets, replayed on the shipped dataset: see README.md here."""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track

from costmodel.collector import ReplayRunner
from costmodel.dataset import load_dataset
from costmodel.files import write_json
from costmodel.search import ModelSampler, Objective, Pool, RandomOrderSampler, tune
from costmodel.search._objective import ObjectiveName, SearchGoal, fewest_sms
from costmodel.search._portfolio import best_portfolio, served_s, smallest_portfolio
from costmodel.tuning import train

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

FIRST = 16  # candidates that `costmodel tune` measures unless told otherwise
KERNELS = 3
WITHIN, COST = 0.02, 0.04
RULES = ("smaller budget's", "larger budget's", "nearest budget's", "interpolated", "better of the two")


def main() -> None:
    """Ask of every workload what its records allow, and what a search of few measurements finds of that."""
    options = parse()
    every = sorted(load_dataset().rows["workload"].unique())
    workloads = options.workload or every
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(partial(study_workload, seeds=range(options.seeds)), workloads)
        rows = [row for part in track(found, "searching", total=len(workloads)) for row in part]
    results = pd.DataFrame(rows)
    summary = {"allowed": allowed(results), "found": searched(results), "between": between(results)}
    print(json.dumps(summary, indent=2))
    if options.json:
        write_json(options.json, {**summary, "workloads": rows})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--workload", action="append", help="instead of all; repeatable")
    parser.add_argument("--seeds", type=int, help="searches of each kind")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--json", type=Path, help="where to write the result")
    return parse_options(parser, __file__, argv)


def study_workload(workload: str, seeds: range) -> list[dict[str, Any]]:
    """What the records of one workload allow, and what searches find; the model never saw it."""
    logging.getLogger("optuna").setLevel(logging.WARNING)
    dataset = load_dataset()
    runner = ReplayRunner(dataset.to_measurements(workload))
    platforms = [runner.platform(sms) for sms in runner.budgets]
    pool = runner.space(workload, platforms[-1:])
    latency_s = np.array([[m.latency_s for m in runner.measure(pool.candidates, p)] for p in platforms]).T
    model = train(dataset, "kernel-ridge", hold_out=[workload]).model
    rows = [{"workload": workload, **of_records(latency_s, runner.budgets)}]
    for seed in seeds:
        orders = searches(runner, pool, platforms, model, seed)
        rows += [
            {"workload": workload, "seed": seed, "search": name, **of_choice(latency_s, measured)}
            for name, measured in orders.items()
        ]
    return rows


def of_records(latency_s: np.ndarray, sms: tuple[int, ...]) -> dict[str, Any]:
    """Choices among all that was recorded."""
    worst = Objective.make(ObjectiveName.WORST_REGRET, len(sms))
    best_s, whole = latency_s.min(axis=0), int(latency_s[:, -1].argmin())
    free = fewest_sms(latency_s, sms, COST)
    return {
        "whole_ratio": (latency_s[whole] / best_s).tolist(),
        **{
            f"best_{k}_ratio": (served_s(latency_s, best_portfolio(latency_s, worst, k)) / best_s).tolist()
            for k in (1, 2, KERNELS)
        },
        "kernels_within": len(smallest_portfolio(latency_s, WITHIN, worst)),
        "sms_enough": sms[free.budget],
        "sms_freed": max(sms) - sms[free.budget],
        **neighbours(latency_s, sms),
    }


def neighbours(latency_s: np.ndarray, sms: tuple[int, ...]) -> dict[str, list[float]]:
    """At each budget but the ends, what the best kernels of the next smaller and the next larger one lose.

    By each rule that chooses between the two without a measurement there.
    """
    loss: dict[str, list[float]] = {rule: [] for rule in RULES}
    best, log_s = latency_s.argmin(axis=0), np.log(latency_s)
    for i in range(1, len(sms) - 1):
        pair = best[[i - 1, i + 1]]
        ratio = latency_s[pair, i] / latency_s[:, i].min()
        share = np.log(sms[i] / sms[i - 1]) / np.log(sms[i + 1] / sms[i - 1])
        expected = (1.0 - share) * log_s[pair, i - 1] + share * log_s[pair, i + 1]
        chosen = (0, 1, int(share >= 0.5), int(expected[1] <= expected[0]), int(ratio.argmin()))
        for rule, which in zip(RULES, chosen, strict=True):
            loss[rule].append(float(ratio[which]))
    return loss


def searches(runner: ReplayRunner, pool: Pool, platforms: list, model: Any, seed: int) -> dict[str, Any]:
    """Positions of the candidates that each search measured, and what it then chooses from them."""
    space = pool.on(*platforms)
    at = {candidate.candidate_id: i for i, candidate in enumerate(pool.candidates)}
    found = {
        f"{name}: {choice}": ([at[trial.candidate.candidate_id] for trial in trials], choice)
        for name, choice, trials in (
            (
                "searched on the whole device",
                "its best there",
                tune(runner, ModelSampler(pool, model, seed=seed), FIRST).trials,
            ),
            (
                "searched on all budgets",
                "one kernel",
                tune(runner, ModelSampler(space, model, seed=seed), FIRST).trials,
            ),
            (
                "searched on all budgets",
                f"{KERNELS} kernels",
                tune(runner, ModelSampler(space, model, goal=SearchGoal.PORTFOLIO, seed=seed), FIRST).trials,
            ),
        )
    }
    drawn = [
        at[t.candidate.candidate_id] for t in tune(runner, RandomOrderSampler(pool, seed=seed), FIRST).trials
    ]
    return found | {f"random: {choice}": (drawn, choice) for choice in ("one kernel", f"{KERNELS} kernels")}


def of_choice(latency_s: np.ndarray, measured: tuple[list[int], str]) -> dict[str, Any]:
    """Latency of the choice over the best recorded at each budget."""
    rows, choice = measured
    known, best_s = latency_s[rows], latency_s.min(axis=0)
    if choice == "its best there":
        return {"ratio": (known[known[:, -1].argmin()] / best_s).tolist()}
    worst = Objective.make(ObjectiveName.WORST_REGRET, latency_s.shape[1])
    most = 1 if choice == "one kernel" else KERNELS
    return {"ratio": (served_s(known, best_portfolio(known, worst, most)) / best_s).tolist()}


def regrets(ratios: pd.Series) -> dict[str, Any]:
    """Worst and geometric mean regret over the budgets, in per cent, over workloads and seeds."""
    worst = np.array([max(row) - 1.0 for row in ratios])
    mean = np.array([np.expm1(np.log(row).mean()) for row in ratios])
    return {
        "worst %: median": round(100 * float(np.median(worst)), 1),
        "worst %: p90": round(100 * float(np.quantile(worst, 0.9)), 1),
        "worst %: largest": round(100 * float(worst.max()), 1),
        "mean %": round(100 * float(np.expm1(np.log1p(mean).mean())), 1),
    }


def allowed(results: pd.DataFrame) -> dict[str, Any]:
    """What the records allow, over the workloads."""
    records = results[results["search"].isna()]
    names = {"whole": "whole-device choice", "best_1": "one kernel", "best_2": "2 kernels"}
    names[f"best_{KERNELS}"] = f"{KERNELS} kernels"
    return {
        **{label: regrets(records[f"{name}_ratio"]) for name, label in names.items()},
        "kernels within 2 %": counts(records["kernels_within"]),
        "SMs enough at 4 %": counts(records["sms_enough"]),
        "SMs freed, mean": round(float(records["sms_freed"].mean()), 1),
    }


def counts(values: pd.Series) -> dict[str, int]:
    """How many workloads have each value."""
    return {str(int(value)): int(count) for value, count in values.value_counts().sort_index().items()}


def searched(results: pd.DataFrame) -> dict[str, Any]:
    """What each search found, over workloads and seeds."""
    rows = results[results["search"].notna()]
    return {str(name): regrets(group["ratio"]) for name, group in rows.groupby("search", sort=False)}


def between(results: pd.DataFrame) -> dict[str, Any]:
    """What a budget loses with a kernel of its neighbours, by each rule."""
    records = results[results["search"].isna()]
    loss = {}
    for rule in RULES:
        ratio = np.concatenate([np.array(row) for row in records[rule]])
        loss[rule] = {
            "mean %": round(100 * float(np.expm1(np.log(ratio).mean())), 1),
            "p90 %": round(100 * float(np.quantile(ratio, 0.9) - 1.0), 1),
            "largest %": round(100 * float(ratio.max() - 1.0), 1),
        }
    return loss


if __name__ == "__main__":
    main()
