"""Choose configs of kernels whose whole kind was left out of the training, by what was read of them."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xgboost

sys.path.append(str(Path(__file__).parents[1]))
from kit.judging import bootstrap_interval, judge_scores
from kit.results import markdown_table, rounded, say
from options import parse_options
from study import ELSEWHERE, TIERS, Rows, boost

from costmodel.arrays import FloatArray, Positions
from costmodel.evaluation._judge import whole_device_latency
from costmodel.features._ir import READ_COLUMNS
from costmodel.files import write_json
from costmodel.integrations.triton._shortlist import OF_SMS, expected_loss, moved_loss
from costmodel.records import Workload
from costmodel.transfer._read_ranker import HALF_WIDTH, HALF_WIDTH_IN_SECONDS, doubt

_LAST = -1e9  # the score of what was not read
_COMMON = 8  # configs that must have been measured at both sizes
_COVERED = 0.9
_TIMED = (1, 2, 4, 8)  # configs, of those that are expected to be the fastest
TIME = [column.name for column in READ_COLUMNS].index("ir/log2_total_s")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--datasets", nargs="+", help="datasets that have facts; kernels of this folder are judged"
    )
    parser.add_argument("--device", help="name of the GPU")
    parser.add_argument("--other-device", help="name of a GPU that nothing is learned from")
    parser.add_argument("--seeds", type=int, help="models of each kind of facts")
    parser.add_argument("--trees", type=int, help="trees of each")
    parser.add_argument("--tiers", nargs="+", choices=list(TIERS), help="kinds of facts that are judged")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parse_options(parser, __file__, argv)
    found = Findings()
    for tier in args.tiers:
        rows = Rows.both([Rows.load(dataset, args.device, tier) for dataset in args.datasets])
        if tier == "ttgir":
            for name, score in references(rows).items():
                found.add(name, rows, [score])
            found.add("read, of our families alone", rows, from_elsewhere(rows, args.seeds, args.trees))
        told = kinds_left_out(rows, args.seeds, args.trees)
        found.add(f"read, {tier}", rows, told)
        found.add(f"read, {tier}, seeds averaged", rows, [told.mean(axis=0)])
        if tier == "ttgir":
            mean = told.mean(axis=0)
            found.add("the same, and timed on the whole GPU", rows, [with_timings(rows, mean)])
            for name, score in other_size(rows, mean).items():
                found.add(name, rows, [score])
            found.told["intervals"] = coverage(rows, mean)
            others = Rows.both([Rows.load(dataset, args.other_device) for dataset in args.datasets])
            there = kinds_left_out(rows, args.seeds, args.trees, others)
            found.add(f"read, learned elsewhere, on an {args.other_device}", others, [there.mean(axis=0)])
            for name in ("random", "analytic time, nothing learned", "timed on the whole GPU"):
                found.add(f"{name}, on an {args.other_device}", others, [references(others)[name]])
        if args.json:
            write_json(args.json, rounded(found.told))
    print(found.table())


class Findings:
    """How good the choices of each order are."""

    def __init__(self) -> None:
        self.told: dict[str, Any] = {}

    def add(self, name: str, rows: Rows, scores: Sequence[FloatArray] | FloatArray) -> None:
        """Judge the scores of several seeds."""
        tasks = pd.concat([judge_scores(rows.table, score) for score in scores])
        tasks = tasks.groupby("task").agg(
            {"score_at_1": "mean", "score_at_8": "mean", "kind": "first", "sms_granted": "first"}
        )
        kinds = rows.table.drop_duplicates("task").set_index("task")["kernel_kind"]
        by_sms = tasks.groupby("sms_granted")["score_at_1"]
        by_kind = tasks.groupby(kinds.reindex(tasks.index))["score_at_1"]
        self.told[name] = {
            "tasks": len(tasks),
            **{f"score_at_{k}": summary(tasks[f"score_at_{k}"], tasks["kind"]) for k in (1, 8)},
            "median by SMs": {str(sms): each for sms, each in by_sms.median().items()},
            "mean by SMs": {str(sms): each for sms, each in by_sms.mean().items()},
            "mean by kind": by_kind.mean().to_dict(),
        }
        say(f"{name}: {rounded(self.told[name]['score_at_1'], 3)}")

    def table(self) -> str:
        """Medians, means and 10th percentiles of the first choice and of the best of eight."""
        header = ["order", *(f"{part} of {k}" for k in (1, 8) for part in ("median", "mean", "p10"))]
        return markdown_table(
            header,
            [
                [
                    name,
                    *(
                        f"{told[f'score_at_{k}'][part]:.3f}"
                        for k in (1, 8)
                        for part in ("median", "mean", "p10")
                    ),
                ]
                for name, told in self.told.items()
                if "tasks" in told
            ],
        )


def summary(score: pd.Series, kernel: pd.Series) -> dict[str, Any]:
    """Median, mean and 10th percentile over tasks, and the interval of the mean over kernels."""
    values = score.to_numpy()
    return {
        "median": float(np.median(values)),
        "mean": float(values.mean()),
        "mean_ci95": bootstrap_interval(lambda at: float(values[at].mean()), kernel.to_numpy()),
        "p10": float(np.quantile(values, 0.1)),
    }


def references(rows: Rows) -> Mapping[str, FloatArray]:
    """Scores that nothing was learned for."""
    is_judged = (rows.table["kernel_kind"] != ELSEWHERE).to_numpy()
    position = rows.table.groupby("task")["candidate"].rank().to_numpy()
    whole_s = whole_device_latency(rows.table)
    analytic = np.where(np.isnan(rows.X[:, TIME]), _LAST, -rows.X[:, TIME].astype(np.float64))
    each = {
        "random": np.zeros(len(is_judged)),
        "first of the list": -position,
        "analytic time, nothing learned": analytic,
    }
    on_part = is_judged & (rows.table["sms_granted"] < rows.table["sms_granted"].max()).to_numpy()
    by_whole = np.where(np.isfinite(whole_s), -whole_s, _LAST)
    told = {"timed on the whole GPU": np.where(on_part, by_whole, np.nan)}
    return told | {name: np.where(is_judged, score, np.nan) for name, score in each.items()}


def with_timings(rows: Rows, score: FloatArray) -> FloatArray:
    """Scores on parts of the GPU where all was timed on the whole one, mixed as the drop-in does."""
    table, most = rows.table, rows.table["sms_granted"].max()
    elsewhere = same_config(table, table.assign(sms_granted=most))
    far = OF_SMS * np.log2(most / table["sms_granted"].to_numpy())
    on_part = np.where(table["sms_granted"] < most, elsewhere, -1)
    return mixed(rows, score, on_part, far, partial(moved_loss, is_other_size=False))


def other_size(rows: Rows, score: FloatArray) -> Mapping[str, FloatArray]:
    """Scores of configs that were timed at the kernel's other size on as many SMs, where eight or more are.

    Where the drop-in did not read the kernel there, it mixes in what was timed as it is.
    """
    table = rows.table
    sizes = table[table["kernel_kind"] != ELSEWHERE].groupby("kind")["workload"].unique()
    others = {size: other for each in sizes for size in each for other in each if other != size}
    other = table["workload"].map(others).fillna("")
    elsewhere = same_config(table, table.assign(workload=other))
    known = pd.Series(elsewhere >= 0).groupby(table["task"]).transform("sum").to_numpy()
    elsewhere = np.where(known >= _COMMON, elsewhere, -1)
    distance = {size: doublings(size, other) for size, other in others.items()}
    far = table["workload"].map(distance).fillna(0.0).to_numpy()
    is_known, there = elsewhere >= 0, rows.table["latency_s"].to_numpy()[elsewhere]
    both = mixed(rows, score, elsewhere, far, lambda lost, _: lost)
    read_there = mixed(rows, score, elsewhere, far, partial(moved_loss, is_other_size=True))
    return {
        "timed at the other size": np.where(is_known, -there, np.nan),
        "read, of configs timed at the other size": np.where(is_known, score, np.nan),
        "the same, and timed at the other size": both,
        "the same, and read there": read_there,
    }


def same_config(table: pd.DataFrame, asked: pd.DataFrame) -> Positions:
    """``(n,)`` row of a table with the workload, SMs and config of each row that is asked for; -1 if none."""
    keys = ["workload", "sms_granted", "config"]
    row = pd.Series(np.arange(len(table)), pd.MultiIndex.from_frame(table[keys]))
    row = row[np.isfinite(table["latency_s"].to_numpy()) & ~row.index.duplicated()]
    return row.reindex(pd.MultiIndex.from_frame(asked[keys])).fillna(-1).to_numpy(np.intp)


def doublings(first: str, second: str) -> float:
    """Doublings between the sizes of two workloads of one kernel; 0 if there is no second."""
    if not second:
        return 0.0
    sizes, others = (Workload.parse(name).dims for name in (first, second))
    return float(sum(abs(np.log2(sizes[dim] / others[dim])) for dim in sizes))


def mixed(
    rows: Rows,
    score: FloatArray,
    elsewhere: Positions,
    far: FloatArray,
    moved: Callable[[FloatArray, FloatArray], FloatArray],
) -> FloatArray:
    """Mix what is read with what was timed in other rows, as the drop-in does; NaN for what was not timed.

    Args:
        rows: All rows.
        score: Of what is read of each.
        elsewhere: Where each was timed.
        far: How far that is, in doublings.
        moved: Tells what is lost here, of what was lost there and how much more should be by what is read.
    """
    is_known = np.isfinite(score) & (elsewhere >= 0)
    task = rows.table["task"].to_numpy()
    lost, read, then = (
        values - pd.Series(np.where(is_known, values, np.nan)).groupby(task).transform("min").to_numpy()
        for values in (np.log(rows.table["latency_s"].to_numpy()[elsewhere]), -score, -score[elsewhere])
    )
    weight = 0.5**far
    lost_here = moved(lost, read - then)
    return np.where(is_known, -expected_loss(weight * lost_here, weight, read), np.nan)


def coverage(rows: Rows, score: FloatArray) -> dict[str, Any]:
    """How many latencies lie within the intervals that ``expect_times`` tells, a kind at a time.

    ``relative`` to the mean of the task's configs, and those that were not timed once the configs that are
    expected to be the fastest were.
    """
    is_known = np.isfinite(rows.y) & np.isfinite(score) & (score > _LAST)
    table = rows.table[is_known].assign(y=rows.y[is_known], expected=-score[is_known])
    by_task = table.groupby("task")
    error = (table["y"] - table["expected"]).groupby(table["task"])
    spread = by_task["expected"].transform(lambda each: doubt(each.to_numpy()))
    place = by_task["expected"].rank(method="first")
    table = table.assign(off=error.transform(lambda each: each - each.mean()) / spread)
    found = {"relative": covered(table, rows.kinds, HALF_WIDTH)}
    for count in _TIMED:
        level = table["off"].where(place <= count).groupby(table["task"]).transform("mean")
        others = table.assign(off=table["off"] - level)[place > count]
        found[f"in seconds, {count} timed"] = covered(others, rows.kinds, HALF_WIDTH_IN_SECONDS)
    return found


def covered(table: pd.DataFrame, kinds: Sequence[str], factor: float) -> dict[str, Any]:
    """How many errors lie within a factor, and within that which covers as many of the other kinds."""
    error = table["off"].abs().to_numpy()
    weight = 1.0 / table["kind"].map(table["kind"].value_counts()).to_numpy()
    kind, found = table["kernel_kind"].to_numpy(), {}
    for each in kinds:
        chosen = weighted_quantile(error[kind != each], weight[kind != each], _COVERED)
        found[each] = float(np.average(error[kind == each] <= chosen, weights=weight[kind == each]))
    return {
        "factor": weighted_quantile(error, weight, _COVERED),
        "with the package's": float(np.average(error <= factor, weights=weight)),
        "mean over kinds": float(np.mean(list(found.values()))),
        "by kind": found,
    }


def weighted_quantile(values: FloatArray, weight: FloatArray, share: float) -> float:
    """The value below which this share of the weight is."""
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return float(values[order][np.searchsorted(below, share * below[-1])])


def kinds_left_out(rows: Rows, seeds: int, trees: int, judged: Rows | None = None) -> FloatArray:
    """``(seeds, n)`` scores of rows that are judged, by trees that saw no kernel of the kind."""
    judged = judged or rows
    found = np.full((seeds, len(judged.table)), np.nan)
    for kind in judged.kinds:
        test = judged.of_kind(kind)
        found[:, test] = scores(judged, boost(rows, rows.not_of_kind(kind), seeds, trees), test)
    return found


def from_elsewhere(rows: Rows, seeds: int, trees: int) -> FloatArray:
    """``(seeds, n)`` scores by trees that saw kernels of the package's families alone."""
    found, test = np.full((seeds, len(rows.table)), np.nan), rows.not_of_kind(ELSEWHERE)
    found[:, test] = scores(rows, boost(rows, rows.of_kind(ELSEWHERE), seeds, trees), test)
    return found


def scores(rows: Rows, boosters: Sequence[xgboost.Booster], test: Positions) -> FloatArray:
    """``(seeds, n)``, higher is better; what was not read comes last."""
    X = rows.X[test].astype(np.float32)
    matrix = xgboost.DMatrix(X, nthread=1)
    said = [-booster.predict(matrix).astype(np.float64) for booster in boosters]
    return np.where(np.isnan(X[:, 0]), _LAST, said)


if __name__ == "__main__":
    main()
