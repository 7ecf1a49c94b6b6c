"""What do columns of a step earn, which tell both operands of a kernel apart? See README.md here."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from costmodel.columns import Column
from costmodel.dataset import SplitRecipe, load_dataset, make_split
from costmodel.dataset.splits._make import drop_final_report
from costmodel.evaluation import EvaluationReport, cross_validate
from costmodel.evaluation._cross_validate import ModelFactory
from costmodel.files import write_json
from costmodel.transfer import make_model
from costmodel.transfer.models._residual import Residual

sys.path.append(str(Path(__file__).parents[1]))
from budgets import on_budgets
from hidden_columns import WithoutColumns, columns_of_steps
from options import parse_options


def main(argv: Sequence[str] | None = None) -> None:
    args = parse(argv)
    dataset = on_budgets(drop_final_report(load_dataset(args.dataset)), args.device, args.sms)
    split = make_split(dataset, SplitRecipe("leave-one-workload-out", folds=args.folds))
    report = cross_validate(dataset, models(args.learner), split=split)
    lines = table(report, args.learner)
    print(pd.DataFrame(lines).set_index("model").round(3).to_string(na_rep=""))
    if args.json:
        write_json(args.json, lines)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="the name or the path of a dataset")
    parser.add_argument("--device", help="name of the GPU; all for every one")
    parser.add_argument("--sms", nargs="+", type=int, help="SM budgets")
    parser.add_argument("--folds", type=int, help="groups of workloads, each left out in turn")
    parser.add_argument("--learner", nargs="+", help="what learns")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def models(learners: Sequence[str]) -> dict[str, ModelFactory]:
    """Each learner with all columns, and without those of a step."""
    found: dict[str, ModelFactory] = {}
    for name in learners:
        found[name] = partial(make_model, name)
        found[without(name)] = partial(_hiding, name)
    return found


def without(name: str) -> str:
    return f"{name}, steps hidden"


def _hiding(name: str, columns: Sequence[Column]) -> Residual:
    model = make_model(name, columns)
    assert isinstance(model, Residual)
    return WithoutColumns(model.learner, columns_of_steps(columns))


def table(report: EvaluationReport, learners: Sequence[str]) -> list[dict[str, Any]]:
    """Means over tasks, and what the columns add to Score@1 with its 95 % interval over workloads."""
    lines = []
    for entry in report.statistics():
        name = entry["learner"]
        line = {
            "model": name,
            "score_at_1": entry["score_at_1"]["mean"],
            "median": entry["score_at_1"]["median"],
            "score_at_5": entry["score_at_5"]["mean"],
            "latency_error": entry["latency_error"],
            "gap_recovered": entry["gap_recovered"],
        }
        if name in learners:
            against = report.against(without(name))
            paired = next(row for row in against if row["learner"] == name)["score_at_1"]
            line |= {"difference": paired["mean_difference"]}
            line["low"], line["high"] = paired["ci95"]
        lines.append(line)
    return lines


if __name__ == "__main__":
    main()
