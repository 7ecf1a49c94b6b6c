"""Fit the model of rows that comes with the package, and judge it on problems that were left out."""

import argparse
import sys
from pathlib import Path

import numpy as np
from judge import judge, kind_of
from model import SETTINGS, doubt, fit, margins_of, predict_unseen
from timings import list_tasks

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded, say
from kit.trees import complete_trees

from costmodel.dataset.table._read import load_dataset
from costmodel.files import write_json
from costmodel.serving._row_model import RowModel


def main() -> None:
    """Read, fit, judge and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+", help="datasets to learn from; the last is judged")
    parser.add_argument("--out", type=Path, required=True, help="the model")
    parser.add_argument("--json", type=Path, help="the figures")
    options = parser.parse_args()
    by_dataset = [list_tasks(load_dataset(each).to_measurements()) for each in options.datasets]
    tasks = [task for each in by_dataset for task in each]
    say(f"{len(tasks)} tasks of {len({task.problem for task in tasks})} problems")
    unseen = predict_unseen(tasks)
    kinds = [kind_of(task) for task in tasks]
    margins = {kind: m for kind, m in margins_of(tasks, unseen, kinds).items() if np.isfinite(m)}
    _, spread = doubt(list(zip(tasks, unseen, strict=True)))
    splits, thresholds, leaves = complete_trees(fit(tasks), int(SETTINGS["max_depth"]))
    model = RowModel(
        kinds=np.array(list(margins)),
        margins=np.array(list(margins.values()), np.float32),
        architectures=np.array(sorted({task.device.architecture for task in tasks})),
        splits=splits,
        thresholds=thresholds,
        leaves=leaves,
        spread=spread.astype(np.float32),
    )
    model.save(options.out)
    say(f"{options.out}: {options.out.stat().st_size:,} bytes, margins {margins}, spread {spread}")
    first = len(tasks) - len(by_dataset[-1])
    problems = {task.problem for task in tasks[first:]}
    others = {problem: margins_of(tasks, unseen, kinds, problem) for problem in sorted(problems)}
    found = judge(tasks[first:], unseen[first:], others)
    if options.json:
        write_json(
            options.json, {name: {k: rounded(v) for k, v in row.items()} for name, row in found.items()}
        )
    rows = [[name, ", ".join(f"{k} {rounded(v)}" for k, v in row.items())] for name, row in found.items()]
    print(markdown_table(["what", "figures"], rows))


if __name__ == "__main__":
    main()
