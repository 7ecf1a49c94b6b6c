"""How good is the first choice among recorded kernels of operators that are read as anybody's programs?

Workloads that were held out are taken for programs that nobody recognises: their blocks say what they
compute, and a few lowered kernels of each sketch what all launch. Nothing else of them is told.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.dataset import Dataset, SplitRecipe, load_dataset, make_split
from costmodel.files import write_json
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.search import KernelSpace
from costmodel.transfer import LearningRows, make_model

sys.path.append(str(Path(__file__).parents[1]))
from kit.held_out import fit_folds
from kit.judging import judge_scores

NAMED, PROGRAM = "{}, named", "{}, as programs"


def main() -> None:
    args = parse()
    dataset = load_dataset(args.dataset)
    data = LearningRows.of(dataset)
    values = {NAMED: data.table.values, PROGRAM: as_programs(dataset, data)}
    folds = make_split(dataset, SplitRecipe("leave-one-workload-out", folds=args.folds)).folds
    means = {}
    for learner in args.learner or ["kernel-ridge", "stack"]:
        scores = {way: np.full(len(data.rows), np.nan) for way in values}
        for fold, model in fit_folds(data, folds, partial(make_model, learner)):
            for way, table in values.items():
                scores[way][fold.test] = np.nan_to_num(model.predict(table[fold.test]).score, nan=-np.inf)
        for way, score in scores.items():
            found = judge_scores(data.rows, score, (1,))["score_at_1"]
            means[way.format(learner)] = {"score_at_1": float(found.mean()), "tasks": len(found)}
    print(json.dumps(means, indent=1))
    if args.json:
        write_json(args.json, means)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, default=Path("datasets/h100-sm-budgets"))
    parser.add_argument("--folds", type=int, default=6, help="groups of workloads, each left out in turn")
    parser.add_argument("--learner", action="append", help="again for more (default: kernel-ridge, stack)")
    parser.add_argument("--json", type=Path)
    return parser.parse_args(argv)


def as_programs(dataset: Dataset, data: LearningRows) -> FloatArray:
    """``(n, d)`` features of the recorded kernels as those of programs."""
    values = np.full_like(data.table.values, np.nan)
    groups = data.rows.groupby([data.rows["workload"].astype(str), "platform"]).indices
    for (_, platform), positions in groups.items():
        candidates = [dataset.candidates[i] for i in data.rows["candidate"].iloc[positions]]
        where = dataset.platforms[platform]
        operator = MetaSchedule().space(candidates[0].workload, where.device.kind)
        source = ProgramSource.of(operator.module)
        space = KernelSpace(source.space(source.workloads[0], where.device.kind), where)
        values[positions] = space.features([candidate.config for candidate in candidates])[:, 0]
    return values


if __name__ == "__main__":
    main()
