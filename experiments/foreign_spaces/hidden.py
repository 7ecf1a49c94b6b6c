"""What does a source that stopped early say of configs that it did not measure? See README.md here."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.arrays import Positions
from costmodel.files import write_json
from costmodel.learners import prepare
from costmodel.learners._curves import TaskCurves
from costmodel.transfer import LearningRows
from costmodel.transfer.models._source_mixture import SourceMixture

sys.path.append(str(Path(__file__).parents[1]))
from kit.caches import find_kernels, name_kernel, read_kernel

HIDDEN = 0.44  # as much of the space as the GEMM of the RTX 3060 Laptop lacks
GOOD = np.log(0.5)


def main() -> None:
    """Hide a part of each file in turn, and compare what is read there with what was measured."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    found = pd.DataFrame([each for folder in find_kernels(arguments.data) for each in errors(folder)])
    table = found.groupby(["hidden", "kernel", "columns"])["error"].mean().unstack().round(3)
    print(table.to_string())
    if arguments.json:
        write_json(arguments.json, table.reset_index().to_dict("records"))


def errors(folder: Path) -> Iterator[dict[str, Any]]:
    """Root mean square error of the log score of good configs, for each complete file of a kernel."""
    data = LearningRows.of(read_kernel(folder))
    rows, table = data.rows, data.table
    bound = SourceMixture.for_columns(table.columns, 0)
    sizes = rows.groupby("device").size()
    for device in sizes.index[sizes > 0.9 * sizes.max()]:
        at = np.flatnonzero(rows["device"] == device)
        true = prepare(table.values[at], data.latency_s[at], np.zeros(len(at)))
        for how, hidden in hide(len(at)):
            kept = np.setdiff1d(np.arange(len(at)), hidden)
            known = prepare(true.X[kept], np.exp(true.clipped_log_latency[kept]), np.zeros(len(kept)))
            for columns in ("alike", "by importance"):
                curves = TaskCurves(
                    bound.task_columns, 3, bound.config_columns, by_importance=columns == "by importance"
                ).fit(known)
                good = hidden[true.log_score[hidden] > GOOD]
                # Both scores are relative to the best of what they know.
                shift = true.log_score[kept].max()
                error = curves.log_scores(true.X[good])[:, 0] + shift - true.log_score[good]
                yield {
                    "kernel": name_kernel(folder),
                    "hidden": how,
                    "columns": columns,
                    "error": float(np.sqrt(np.square(error).mean())) if good.size else np.nan,
                }


def hide(n: int) -> Iterator[tuple[str, Positions]]:
    """Positions of rows, which come in order of the columns, that a file would not have."""
    count = int(HIDDEN * n)
    yield "at random", np.sort(np.random.default_rng(0).permutation(n)[:count])
    yield "the rest of a list", np.arange(n - count, n)


if __name__ == "__main__":
    main()
