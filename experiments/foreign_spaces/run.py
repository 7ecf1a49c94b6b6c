"""How near to the best do a list and a search come on a GPU, or an architecture, left out? See README.md."""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track
from rules import RULES

sys.path.append(str(Path(__file__).parents[1]))
from kit.caches import find_kernels, leave_devices_out, name_kernel, read_kernel
from kit.replay import search_recorded
from options import parse_options

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset import Dataset
from costmodel.dataset.splits._folds import Fold
from costmodel.features._table import FeatureTable
from costmodel.files import write_json
from costmodel.transfer import LearningRows, TransferModel, shortlist

LISTED = (1, 5, 10, 25)
NEAR = 1.01
ENOUGH, MOST = 30, 60
LEFT_OUT = ("device", "architecture")


def main() -> None:
    """Leave each GPU, and each architecture, out of each kernel; list, search and compare."""
    arguments = parse()
    found = [
        {"kernel": name_kernel(folder), **case}
        for folder in find_kernels(arguments.data)
        for case in cases(read_kernel(folder), arguments, folder.name)
    ]
    results = pd.DataFrame(found)
    summary = {left: summarise(results[results["left out"] == left]) for left in LEFT_OUT}
    for left, table in summary.items():
        print(f"{left} left out\n{table.to_string()}\n")
    if arguments.json:
        document = {
            "summary": {left: table.reset_index().to_dict("records") for left, table in summary.items()},
            "chosen on the other kernels": {left: chosen_elsewhere(results, left) for left in LEFT_OUT},
            "cases": found,
        }
        write_json(arguments.json, document)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--rules", nargs="*", choices=RULES, metavar="RULE")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def cases(dataset: Dataset, arguments: argparse.Namespace, kernel: str) -> Iterator[dict[str, Any]]:
    """What each rule finds on each device of a kernel, with the device or its architecture left out."""
    data = LearningRows.of(dataset)
    table, y = data.table, data.latency_s
    vendor = data.rows["device"].str.startswith("AMD").to_numpy(dtype=np.float64)
    X = np.column_stack([table.values, vendor])  # of which LearningRows, which would fit, knows nothing
    for fold in track(list(leave_devices_out(data.rows)), kernel):
        for left, sources in known(fold, table).items():
            for name in arguments.rules or RULES:
                model = RULES[name](table).fit(X[sources], y[sources], data.task_ids[sources])
                found = judge(model, X[fold.test], y[fold.test])
                for each in left:
                    yield {"device": fold.held_out, "left out": each, "rule": name, **found}


def judge(model: TransferModel, X: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Best over the best found by a list and by a search, and after how many the search was near."""
    listed, searched = (
        np.maximum.accumulate(y.min() / y[order])
        for order in (
            shortlist(model, X, LISTED[-1]),
            search_recorded(model, X, y, near=NEAR, most=MOST, least=LISTED[2]),
        )
    )
    near = np.flatnonzero(searched >= 1.0 / NEAR)
    return {
        "listed": [round(float(listed[k - 1]), 4) for k in LISTED],
        "searched": [round(float(searched[:k].max()), 4) for k in LISTED],
        "needed": int(near[0]) + 1 if near.size else None,
    }


def known(fold: Fold, table: FeatureTable) -> Mapping[tuple[str, ...], Positions]:
    """Rows to learn from, by what is left out: the device, or all devices of its architecture."""
    of = table.values[:, [i for i, column in enumerate(table.columns) if "architecture" in column.tags]]
    akin = (of[fold.train] == of[fold.test[0]]).all(axis=1)
    if not akin.any():
        return {("device", "architecture"): fold.train}
    return {("device",): fold.train, ("architecture",): fold.train[~akin]}


def summarise(results: pd.DataFrame) -> pd.DataFrame:
    """Medians and 10th percentiles over cases of what a list and a search come to."""
    lines = {name: line(of) for name, of in results.groupby("rule", sort=False)}
    summary = pd.DataFrame(lines).T
    summary.index.name = "rule"
    return summary


def line(of: pd.DataFrame) -> dict[str, float]:
    """Figures of one rule."""
    listed, searched = (np.array(of[name].to_list()) for name in ("listed", "searched"))
    needed = of["needed"].astype(float).fillna(np.inf)
    return {
        **{f"@{k}": round(float(np.median(listed[:, i])), 3) for i, k in enumerate(LISTED)},
        "@10, p10": round(float(np.quantile(listed[:, 2], 0.1)), 3),
        "searched @10": round(float(np.median(searched[:, 2])), 3),
        "p10": round(float(np.quantile(searched[:, 2], 0.1)), 3),
        "to 1 %: median": float(needed.median()),
        f"within {ENOUGH}": round(float((needed <= ENOUGH).mean()), 3),
        "never": float(np.isinf(needed).sum()),
        f"to 1 %: mean, {MOST} at most": round(float(needed.clip(upper=MOST).mean()), 1),
    }


def chosen_elsewhere(results: pd.DataFrame, left: str) -> dict[str, Any]:
    """The rule with the fewest measurements on the other kernels, judged on each kernel."""
    of = results[results["left out"] == left].assign(
        needed=lambda rows: rows["needed"].astype(float).fillna(np.inf).clip(upper=MOST)
    )
    chosen = {
        kernel: of[of["kernel"] != kernel].groupby("rule")["needed"].mean().idxmin()
        for kernel in of["kernel"].unique()
    }
    kept = results[results["left out"] == left]
    kept = kept[kept["rule"] == kept["kernel"].map(chosen)]
    return {"rules": chosen, **line(kept)}


if __name__ == "__main__":
    main()
