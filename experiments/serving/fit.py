"""Fit the model of rows that comes with the package, and how far a row must be ahead to be surely so."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from model import SETTINGS, fit, predict_unseen
from timings import Task, list_tasks

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from kit.trees import complete_trees

from costmodel.arrays import FloatArray
from costmodel.dataset.table._read import load_dataset
from costmodel.serving._row_model import RowModel

_SLOWER, _SELDOM = 0.01, 0.005  # how much slower counts, and how seldom that may be
_PRECISIONS = {(2.0, 2.0): "", (1.0, 1.0): "fp8_w8a8", (2.0, 1.0): "int8_w8a16", (2.0, 0.5): "int4_w4a16"}


def main() -> None:
    """Read, fit and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("datasets", nargs="+", help="datasets with timings of tiled products")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    tasks = [task for each in options.datasets for task in list_tasks(load_dataset(each).to_measurements())]
    say(f"{len(tasks)} tasks of {len({task.problem for task in tasks})} problems")
    unseen = predict_unseen(tasks)
    margin, spread = doubt(tasks, unseen)
    say(f"margin {margin:.3f}, spread {spread.round(3)}")
    splits, thresholds, leaves = complete_trees([fit(tasks)], int(SETTINGS["max_depth"]))
    model = RowModel(
        precisions=np.array(sorted({_precision(task) for task in tasks})),
        architectures=np.array(sorted({task.device.architecture for task in tasks})),
        splits=splits,
        thresholds=thresholds,
        leaves=leaves,
        margin=np.float32(margin).reshape(()),
        spread=spread.astype(np.float32),
    )
    model.save(options.out)
    say(f"{options.out}: {options.out.stat().st_size:,} bytes")


def doubt(tasks: Sequence[Task], unseen: Sequence[FloatArray]) -> tuple[float, FloatArray]:
    """Return the least margin by which hardly any first choice is the slower one, and the spread of ratios.

    Every config of a task stands for a default once.
    """
    expected, measured = [], []
    for task, log_s in zip(tasks, unseen, strict=True):
        ran = np.isfinite(task.seconds)
        if ran.sum() < 2:
            continue
        first = int(np.argmin(np.where(ran, log_s, np.inf)))
        others = ran & (np.arange(len(ran)) != first)
        expected.append(log_s[others] - log_s[first])
        measured.append(np.log(task.seconds[others] / task.seconds[first]))
    gap, gain = np.concatenate(expected), np.concatenate(measured)
    order = np.argsort(-gap)
    share = np.cumsum(gain[order] < -_SLOWER) / np.arange(1, len(order) + 1)
    kept = np.flatnonzero(share <= _SELDOM)
    margin = float(gap[order][kept[-1]]) if len(kept) else float(gap.max())
    return margin, np.quantile(gain - gap, [0.05, 0.95])


def _precision(task: Task) -> str:
    of = dict(zip(("of_token", "of_weight"), task.X[0, -2:].tolist(), strict=True))
    return _PRECISIONS[of["of_token"], of["of_weight"]]


if __name__ == "__main__":
    main()
