"""Which columns, and which learners of the stack, earn what? See README.md here."""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from costmodel.columns import Column
from costmodel.dataset import SplitRecipe, load_dataset, make_split
from costmodel.evaluation import EvaluationReport, cross_validate
from costmodel.evaluation._cross_validate import ModelFactory
from costmodel.files import write_json
from costmodel.learners import KernelRidge, Learner, XGBoostLearner
from costmodel.learners._stack import Stack
from costmodel.learners.trees._boosted_trees import XGBoostRanker
from costmodel.transfer.models._residual import Residual

sys.path.append(str(Path(__file__).parents[1]))
from hidden_columns import WithoutColumns, columns_of_steps
from options import parse_options

FULL = "xgboost, all columns"
BOUND = "log2_roofline_s"
STEPS = "steps, which are part of tiles"
# What is left out; the bound stays, as latency is learned relative to it.
PARTS: dict[str, Callable[[Column], bool]] = {
    "workload": lambda column: column.group == "workload",
    "platform": lambda column: column.group == "platform",
    "tiles": lambda column: column.group == "config",
    "analytic times": lambda column: (
        column.name.endswith("_over_roofline") or column.name == "log2_analytic_s"
    ),
    "traffic and intensity": lambda column: (
        column.name.endswith(("_bytes", "_intensity", "_redundancy", "_extra_flops"))
        and column.group == "launch"
    ),
    "waves and occupancy": lambda column: (
        column.name
        in (
            "log2_blocks_per_sm",
            "occupancy",
            "lane_share",
            "log2_busy_warps_per_sm",
            "log2_fractional_waves",
            "log2_waves",
            "idle_share",
            "log2_imbalance",
            "active_sm_share",
        )
    ),
    "all of launches": lambda column: column.group == "launch",
}


def main() -> None:
    arguments = parse()
    dataset = load_dataset(arguments.dataset)
    split = make_split(dataset, SplitRecipe("leave-one-workload-out", folds=arguments.folds))
    models = {**without_columns(), **without_learners()}
    report = cross_validate(dataset, models, split=split)
    lines = table(report)
    print(pd.DataFrame(lines).set_index("model").round(3).to_string(na_rep=""))
    if arguments.json:
        write_json(arguments.json, lines)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path)
    parser.add_argument("--folds", type=int, help="groups of workloads, each left out in turn")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def without_columns() -> dict[str, ModelFactory]:
    def factory(hidden: Callable[[Sequence[Column]], Sequence[int]]) -> ModelFactory:
        def make(columns: Sequence[Column]) -> Residual:
            bound = [column.name for column in columns].index(BOUND)
            return WithoutColumns(XGBoostLearner(bound), hidden(columns))

        return make

    def those(hides: Callable[[Column], bool], columns: Sequence[Column]) -> list[int]:
        return [i for i, column in enumerate(columns) if hides(column) and column.name != BOUND]

    return {
        FULL: factory(lambda _: ()),
        **{f"  without {part}": factory(partial(those, hides)) for part, hides in PARTS.items()},
        f"  without {STEPS}": factory(columns_of_steps),
    }


def without_learners() -> dict[str, ModelFactory]:
    kinds: dict[str, Callable[[int], Learner]] = {
        "kernel ridge": KernelRidge,
        "boosted trees": XGBoostLearner,
        "ranker": lambda _: XGBoostRanker(),
    }

    def factory(members: Sequence[str]) -> ModelFactory:
        def make(columns: Sequence[Column]) -> Residual:
            bound = [column.name for column in columns].index(BOUND)
            return Residual(Stack(tuple(kinds[member](bound) for member in members)))

        return make

    return {
        "stack": factory(list(kinds)),
        **{f"  without {out}": factory([kind for kind in kinds if kind != out]) for out in kinds},
    }


def table(report: EvaluationReport) -> list[dict[str, Any]]:
    """Means over tasks, and the difference to the full model with its 95 % interval over workloads."""
    lines = []
    for entry in report.statistics():
        name = entry["learner"]
        whole = FULL if name.strip().removeprefix("without ") in (*PARTS, STEPS) else "stack"
        line = {
            "model": name,
            "score_at_1": entry["score_at_1"]["mean"],
            "score_at_5": entry["score_at_5"]["mean"],
            "latency_error": entry["latency_error"],
            "gap_recovered": entry["gap_recovered"],
        }
        if "without" in name:
            paired = next(row for row in report.against(whole) if row["learner"] == name)["score_at_1"]
            line["difference"] = paired["mean_difference"]
            line["low"], line["high"] = paired["ci95"]
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
