"""Do intervals hold on workloads never seen, on each device and at each SM budget? See README.md here."""

import argparse
import json
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track

from costmodel.dataset import load_dataset
from costmodel.features import FeatureTable, extract
from costmodel.metrics import coverage_score, log_width_error
from costmodel.transfer import TransferModel, make_model

SHOTS = 6
ADAPTED_TASKS = 120  # of each fold


def main() -> None:
    """Hold out a third of the workloads in turn, and count the measurements within their interval."""
    arguments = parse()
    dataset = load_dataset(arguments.dataset)
    rows = dataset.rows.sample(frac=1.0, random_state=0)
    rows = rows.groupby("task").head(arguments.configs).reset_index(drop=True)
    platforms = [dataset.platforms[i] for i in rows["platform"]]
    table = extract([dataset.candidates[i] for i in rows["candidate"]], platforms)
    fold_of = deal(rows["workload"], arguments.folds)
    found = []
    for fold in track(range(arguments.folds), "folds"):
        out = (fold_of == fold).to_numpy()
        model = make_model(arguments.learner, table.columns)
        y, tasks = rows["latency_s"].to_numpy(), rows["task"].to_numpy()
        model.fit(table.values[~out], y[~out], tasks[~out])
        found += [zero_shot(model, table, rows, out), adapted(model, table, rows, out)]
    summary = summarise(pd.concat(found))
    print(summary.to_string())
    if arguments.json:
        arguments.json.write_text(json.dumps(summary.reset_index().to_dict("records"), indent=1) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, default=Path("datasets/sm-budgets"))
    parser.add_argument("--learner", default="kernel-ridge-intervals")
    parser.add_argument("--configs", type=int, default=14, help="configs drawn of each task")
    parser.add_argument("--folds", type=int, default=3)
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def deal(workloads: pd.Series, folds: int) -> pd.Series:
    """Fold of each row; whole workloads are dealt out."""
    names = np.random.default_rng(0).permutation(np.unique(workloads))
    return workloads.map({name: i % folds for i, name in enumerate(names)})


def zero_shot(model: TransferModel, table: FeatureTable, rows: pd.DataFrame, out: np.ndarray) -> pd.DataFrame:
    prediction = model.predict(table.values[out])
    columns = ["device", "sms_granted", "latency_s"]
    return rows.loc[out, columns].assign(shots=0, low_s=prediction.low_s, high_s=prediction.high_s)


def adapted(model: TransferModel, table: FeatureTable, rows: pd.DataFrame, out: np.ndarray) -> pd.DataFrame:
    """The rest of some held-out tasks, after SHOTS measurements of each."""
    drawn = np.random.default_rng(0).permutation(rows.loc[out, "task"].unique())[:ADAPTED_TASKS]
    found = []
    for task in drawn:
        at = np.flatnonzero(rows["task"] == task)
        y, rest = rows["latency_s"].to_numpy(), at[SHOTS:]
        if np.isfinite(y[at[:SHOTS]]).any() and rest.size:
            predictor = model.adapt(table.values[at[:SHOTS]], y[at[:SHOTS]])
            prediction = predictor.predict(table.values[rest])
            part = rows.iloc[rest][["device", "sms_granted", "latency_s"]]
            found.append(part.assign(shots=SHOTS, low_s=prediction.low_s, high_s=prediction.high_s))
    return pd.concat(found)


def summarise(found: pd.DataFrame) -> pd.DataFrame:
    """Coverage and width, for all, by device and by budget."""
    lines = {}
    for shots, every in found.groupby("shots"):
        parts = {("all", ""): every}
        for column in ("device", "sms_granted"):
            parts |= {(column, str(value)): part for value, part in every.groupby(column)}
        for key, part in parts.items():
            low, high = part["low_s"].to_numpy(), part["high_s"].to_numpy()
            lines[(shots, *key)] = {
                "coverage": coverage_score(low, high, part["latency_s"].to_numpy()),
                "log width": log_width_error(low, high),
                "rows": len(part),
            }
    summary = pd.DataFrame(lines).T.round(3)
    summary.index.names = ["measurements", "by", "value"]
    return summary


if __name__ == "__main__":
    main()
