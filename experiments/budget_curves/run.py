"""Latency at SM budgets where a kernel was not measured, from two where it was: see README.md here."""

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from rich.console import Console

from costmodel.dataset import Dataset, load_dataset
from costmodel.dataset.splits._folds import shape_siblings
from costmodel.dataset.splits._make import drop_final_report
from costmodel.features import extract
from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from budget_curve import (
    BudgetCurves,
    BudgetReplicates,
    inverse_curve,
    rounds_curve,
    smallest_budget,
    waves_curve,
)
from kit.judging import bootstrap_interval
from kit.results import rounded
from options import parse_options

WHOLE = 132
FIRST = (8, 16, 32, 64)  # smaller of the two budgets that are measured
SHOWN = 16
STEP = 8  # SMs that green contexts are granted by
FOLDS = 6
TREES = "rounds + trees"
# What the trees are told of a kernel on the whole device: its resources, and what bounds its time.
COLUMNS = (
    "log2_threads_per_block",
    "log2_shared_bytes",
    "log2_local_bytes",
    "occupancy",
    "log2_compute_share_of_roofline",
    "log2_bytes_over_l2",
    "launches",
    "log2_load_redundancy",
    "log2_compute_over_roofline",
    "log2_l2_over_roofline",
    "log2_latency_over_roofline",
    "log2_roofline_s",
)
Curve = Callable[[BudgetReplicates, np.ndarray], np.ndarray]


def main() -> None:
    """Predict every curve from two points in several ways, and compare."""
    arguments = parse()
    dataset = drop_final_report(load_dataset(arguments.dataset))
    green, mps = measured_curves(dataset, "green_context"), measured_curves(dataset, "mps")
    results = [result for first in FIRST for result in judge_all(green, mps, first)]
    table = pd.DataFrame(results)
    shown = table[table["of"].eq("all") | table["first"].eq(SHOWN)].drop(columns="by_budget")
    Console(width=160).print(shown.to_string(index=False, float_format="{:.4f}".format))
    if arguments.json:
        write_json(arguments.json, results)
    if arguments.plot:
        draw(table, arguments.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    return parse_options(parser, __file__, argv)


@dataclass(frozen=True)
class Curves:
    """Kernels measured at all SM budgets of one way to set SMs apart, and on the whole device.

    ``rows`` has workload and device; ``sms`` is ``(k,)`` ascending; ``latency_s`` is ``(n, k)``.
    """

    rows: pd.DataFrame
    sms: np.ndarray
    latency_s: np.ndarray

    def known(self, first: int) -> BudgetReplicates:
        """What two measurements tell."""
        at = [int(np.flatnonzero(self.sms == sms)[0]) for sms in (first, WHOLE)]
        blocks, blocks_per_sm = (self.rows[name].to_numpy() for name in ("blocks", "blocks_per_sm"))
        columns = self.rows[[name for name in COLUMNS if name in self.rows]].to_numpy(dtype=np.float64)
        return BudgetReplicates(blocks, blocks_per_sm, (first, WHOLE), self.latency_s[:, at], columns)

    def part(self, taken: np.ndarray) -> "Curves":
        """Some of the kernels."""
        return Curves(self.rows[taken], self.sms, self.latency_s[taken])


def measured_curves(dataset: Dataset, isolation: str) -> Curves:
    """The kernels of a dataset that ran everywhere; how many blocks they have, its features tell."""
    rows = dataset.rows
    kept = np.array([p.isolation in (isolation, "whole") for p in dataset.platforms])[rows["platform"]]
    table = rows[kept].pivot_table(
        index=["workload", "candidate", "device"], columns="sms_granted", values="latency_s"
    )
    table = table.replace(np.inf, np.nan).dropna()
    whole = {p.device.name: p for p in dataset.platforms if p.isolation == "whole"}
    found = table.index.to_frame(index=False)
    candidates = [dataset.candidates[i] for i in found["candidate"]]
    features = extract(candidates, [whole[name] for name in found["device"]])
    for name in ("blocks", "blocks_per_sm"):
        found[name] = 2.0 ** features.values[:, features.index(f"log2_{name}")]
    for column, values in zip(features.columns, features.values.T, strict=True):
        if column.name in COLUMNS:
            found[column.name] = values
    return Curves(found, table.columns.to_numpy(dtype=np.float64), table.to_numpy())


def judge_all(green: Curves, mps: Curves, first: int) -> list[dict[str, object]]:
    """Every way to predict, on green contexts and, where it was measured there too, under MPS."""
    learned = LearnedElsewhere(green, first)
    ways: dict[str, Curve] = {
        "1 / SMs": lambda known, sms: known.latency_s[:, 1:] * WHOLE / sms,
        "log-log": log_log,
        "a + b / SMs": inverse_curve,
        "a + b waves": waves_curve,
        "a + b rounds": rounds_curve,
    }
    results = []
    for isolation, curves in (("green context", green), ("mps", mps)):
        if first not in curves.sms:
            continue
        for name, way in (*ways.items(), (TREES, learned.predictor(curves))):
            results += judge(curves, first, way, {"first": first, "isolation": isolation, "way": name})
    return results


def log_log(known: BudgetReplicates, sms: np.ndarray) -> np.ndarray:
    """Straight between both measurements on scales of logarithms."""
    share = np.log(sms / known.sms[0]) / np.log(known.sms[1] / known.sms[0])
    low, high = np.log(known.latency_s).T[:, :, None]
    return np.exp(low + (high - low) * share)


class LearnedElsewhere:
    """Trees for each fold of the workloads, learned from the kernels of the others under green contexts."""

    def __init__(self, green: Curves, first: int) -> None:
        siblings = shape_siblings(sorted(green.rows["workload"].unique()))
        groups = sorted(set(siblings.values()))
        order = np.random.default_rng(0).permutation(len(groups))
        fold_of = dict(zip(groups, order % FOLDS, strict=True))
        self.fold_of = {name: fold_of[group] for name, group in siblings.items()}
        others = ~np.isin(green.sms, (first, WHOLE))
        self.models = []
        for fold in range(FOLDS):
            train = green.part(self.folds(green) != fold)
            model = BudgetCurves().fit(train.known(first), green.sms[others], train.latency_s[:, others])
            self.models.append(model)

    def folds(self, curves: Curves) -> np.ndarray:
        """Fold of each kernel."""
        return curves.rows["workload"].map(self.fold_of).to_numpy()

    def predictor(self, curves: Curves) -> Curve:
        """Predicts each of these kernels by the trees that have not met its workload."""
        folds = self.folds(curves)

        def predict(known: BudgetReplicates, sms: np.ndarray) -> np.ndarray:
            found = np.empty((len(folds), len(sms)))
            for fold, model in enumerate(self.models):
                taken = folds == fold
                found[taken] = model.predict(known.part(taken), sms)
            return found

        return predict


def judge(curves: Curves, first: int, way: Curve, facts: dict[str, object]) -> list[dict[str, object]]:
    """Errors at the budgets that were not measured, and how often the smallest budget is found.

    The smallest budget is looked for among all that can be granted, and is right within one step of the
    smallest that was measured to be fast enough.
    """
    known = curves.known(first)
    others = np.flatnonzero(~np.isin(curves.sms, known.sms))
    error = np.abs(way(known, curves.sms)[:, others] / curves.latency_s[:, others] - 1.0)
    grid = np.append(np.arange(STEP, WHOLE, STEP), WHOLE).astype(np.float64)
    at_grid = way(known, grid)
    at_grid[:, -1] = curves.latency_s[:, -1]
    off = np.abs(smallest_budget(at_grid, grid) - smallest_budget(curves.latency_s, curves.sms))
    # A grid coarser than the step does not tell where the smallest budget is.
    knee = (
        (off <= STEP).astype(float) if np.isin(np.arange(STEP, 49, STEP), curves.sms).all() else off * np.nan
    )
    groups = {"all": np.ones(len(error), dtype=bool)}
    groups |= {name: (curves.rows["device"] == name).to_numpy() for name in curves.rows["device"].unique()}
    by_budget = dict(
        zip(curves.sms[others].astype(int).tolist(), np.median(error, axis=0).tolist(), strict=True)
    )
    workloads = curves.rows["workload"].to_numpy()
    return [
        {
            **facts,
            "of": name,
            "kernels": int(taken.sum()),
            **summary(error[taken], knee[taken], workloads[taken]),
        }
        | {"by_budget": by_budget}
        for name, taken in groups.items()
    ]


def summary(error: np.ndarray, knee: np.ndarray, workloads: np.ndarray) -> dict[str, object]:
    """Errors and the share of budgets found, with 95 % bootstraps over workloads."""
    shares: dict[str, object] = {"budget_found": None, "budget_found_ci95": None}
    if not np.isnan(knee).any():
        ends = bootstrap_interval(lambda drawn: knee[drawn].mean(), workloads, resamples=200)
        shares = {"budget_found": float(knee.mean()), "budget_found_ci95": rounded(ends, 3)}
    ends = bootstrap_interval(lambda drawn: np.median(error[drawn]), workloads, resamples=200)
    return shares | {
        "median_error": float(np.median(error)),
        "median_error_ci95": rounded(ends, 4),
        "p90_error": float(np.quantile(error, 0.9)),
    }


def draw(table: pd.DataFrame, path: Path) -> None:
    """Median error by budget, and smallest budgets found by what was measured."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    green = table[(table["isolation"] == "green context") & (table["of"] == "all")]
    for name, group in green.groupby("way", sort=False):
        one = group[group["first"] == SHOWN].iloc[0]["by_budget"]
        left.plot(list(one), list(one.values()), marker="o", markersize=4, label=name)
        right.plot(group["first"], group["budget_found"], marker="o", markersize=4, label=name)
    left.set(title=f"Measured on {SHOWN} and {WHOLE} SMs", ylabel="median |predicted / measured - 1|")
    left.set(yscale="log", xlabel="SMs granted")
    right.set(title=f"Smallest budget for 90 % of full speed, within {STEP} SMs", ylabel="share of kernels")
    right.set(xlabel=f"SMs of the measurement besides {WHOLE}", ylim=(0, 1))
    right.axhline(0.9, color="#555555", linestyle=":", linewidth=1.2)
    for axes in (left, right):
        axes.grid(alpha=0.25)
        axes.spines[["top", "right"]].set_visible(False)
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
