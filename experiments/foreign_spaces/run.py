"""How near to the best do a list and a search come on a GPU, or an architecture, left out? See README.md."""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.progress import track
from rules import RULES

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

from costmodel.arrays import FloatArray, Positions
from costmodel.dataset import Dataset, read_files
from costmodel.features import extract
from costmodel.features._table import FeatureTable
from costmodel.search._acquisition import improvement_of_posterior
from costmodel.transfer import TransferModel, shortlist
from costmodel.transfer._plan import Posterior

# Held out together: `costmodel dataset validate` finds that they measured nearly the same.
TWINS = ("NVIDIA GeForce RTX 2080 Ti", "NVIDIA TITAN RTX")
LISTED = (1, 5, 10, 25)
NEAR = 1.01
SCREENED, SCREEN_EVERY = 2048, 16  # as ModelSampler does
ENOUGH, MOST = 30, 60
LEFT_OUT = ("device", "architecture")


def main() -> None:
    """Leave each GPU, and each architecture, out of each kernel; list, search and compare."""
    arguments = parse()
    folders = sorted({path.parent for path in arguments.data.glob("*/*/*.json.gz")})
    found = [
        {"kernel": f"{folder.parent.name}/{folder.name}", **case}
        for folder in folders
        for case in cases(read_files(sorted(folder.glob("*.json.gz"))), arguments, folder.name)
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
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with <suite>/<kernel>/*.json.gz of Kernel Tuner")
    parser.add_argument("--rules", nargs="*", choices=RULES, metavar="RULE")
    parser.add_argument("--json", type=Path)
    return parse_options(parser, __file__, argv)


def cases(dataset: Dataset, arguments: argparse.Namespace, kernel: str) -> Iterator[dict[str, Any]]:
    """What each rule finds on each device of a kernel, with the device or its architecture left out."""
    rows = dataset.rows
    table = extract(
        [dataset.candidates[i] for i in rows["candidate"]], [dataset.platforms[i] for i in rows["platform"]]
    )
    vendor = rows["device"].str.startswith("AMD").to_numpy(dtype=np.float64)
    X = np.column_stack([table.values, vendor])
    y, names = rows["latency_s"].to_numpy(), rows["task"].to_numpy()
    for device in track(rows["device"].unique(), kernel):
        target = np.flatnonzero(rows["device"] == device)
        for left, sources in known(rows, table, device).items():
            for name in arguments.rules or RULES:
                model = RULES[name](table).fit(X[sources], y[sources], names[sources])
                found = judge(model, X[target], y[target])
                for each in left:
                    yield {"device": device, "left out": each, "rule": name, **found}


def judge(model: TransferModel, X: FloatArray, y: FloatArray) -> dict[str, Any]:
    """Best over the best found by a list and by a search, and after how many the search was near."""
    listed, searched = (
        np.maximum.accumulate(y.min() / y[order])
        for order in (shortlist(model, X, LISTED[-1]), search(model, X, y))
    )
    near = np.flatnonzero(searched >= 1.0 / NEAR)
    return {
        "listed": [round(float(listed[k - 1]), 4) for k in LISTED],
        "searched": [round(float(searched[:k].max()), 4) for k in LISTED],
        "needed": int(near[0]) + 1 if near.size else None,
    }


def known(rows: pd.DataFrame, table: FeatureTable, device: str) -> Mapping[tuple[str, ...], Positions]:
    """Rows to learn from, by what is left out: the device, or all devices of its architecture."""
    others = ~rows["device"].isin(TWINS if device in TWINS else [device]).to_numpy()
    of = table.values[:, [i for i, column in enumerate(table.columns) if "architecture" in column.tags]]
    akin = others & (of == of[(rows["device"] == device).to_numpy()][0]).all(axis=1)
    if not akin.any():
        return {("device", "architecture"): np.flatnonzero(others)}
    return {("device",): np.flatnonzero(others), ("architecture",): np.flatnonzero(others & ~akin)}


def search(model: TransferModel, X: FloatArray, y: FloatArray) -> Positions:
    """``(m,)`` what is measured, in order: best score and largest expected improvement in turn.

    It ends near the best, after ten measurements or more, or after ``MOST``.
    """
    seen: list[int] = []
    pool = np.arange(len(X))
    while len(seen) < MOST and not (len(seen) >= LISTED[2] and y[seen].min() <= NEAR * y.min()):
        predictor = model.propose(X[seen], y[seen]) if seen else model
        if len(seen) % SCREEN_EVERY == 0:
            pool = np.argsort(-predictor.predict(X).score, kind="stable")[: SCREENED + len(seen)]
        left = pool[~np.isin(pool, seen)]
        left = left[np.argsort(-predictor.predict(X[left]).score, kind="stable")]
        best_s = y[seen].min() if seen else np.inf
        if len(seen) % 2 and np.isfinite(best_s) and isinstance(predictor, Posterior):
            left = left[[int(np.argmax(improvement_of_posterior(predictor, X[left], best_s)))]]
        seen.append(int(left[0]))
    return np.array(seen)


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
