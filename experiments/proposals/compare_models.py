"""How well models of a workload's first kernels predict those measured later: see README.md."""

from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.ensemble import ExtraTreesRegressor

from costmodel.dataset import Dataset, load_dataset, shipped_dataset
from costmodel.features import FeatureTable, extract
from costmodel.search._gaussian_process import GaussianProcess

BUDGETS = (8, 32, 132)
FIRST = (24, 52)
LEAST_LATER = 20

Predict = Callable[[np.ndarray, np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


def trees(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread over 200 extremely randomised trees."""
    forest = ExtraTreesRegressor(200, max_features=0.5, random_state=0).fit(X, y)
    every = np.array([tree.predict(asked.astype(np.float32)) for tree in forest.estimators_])
    return every.mean(axis=0), every.std(axis=0)


def process(X: np.ndarray, y: np.ndarray, asked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and spread of the Gaussian process that proposals use."""
    return GaussianProcess.fit(X, y).predict(asked)


def bounds(table: FeatureTable) -> dict[str, np.ndarray]:
    """What log latency is predicted above."""
    roofline, above = (
        np.log(2.0) * table.values[:, table.index(name)]
        for name in ("log2_roofline_s", "log2_analytic_over_roofline")
    )
    return {"nothing": np.zeros(len(above)), "roofline": roofline, "analytic time": roofline + above}


def splits(dataset: Dataset, rows: pd.DataFrame) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Positions of the rows of the kernels measured first and of those measured later, by workload."""
    measured_at = dataset.measurements.groupby("candidate")["measured_at"].min()
    for _, of_workload in rows.groupby("workload"):
        order = measured_at[of_workload["candidate"].unique()].sort_values().index
        for count in FIRST:
            if len(order) >= count + LEAST_LATER:
                early = rows["candidate"].isin(order[:count]).to_numpy()
                later = rows["candidate"].isin(order[count:]).to_numpy()
                yield count, np.flatnonzero(early), np.flatnonzero(later)


def judge(y: np.ndarray, mean: np.ndarray, spread: np.ndarray) -> dict[str, float]:
    """How good a prediction of one task is."""
    five = np.argsort(mean)[:5]
    return {
        "rank correlation": spearmanr(y, mean).statistic,
        "rms error": float(np.sqrt(np.mean((y - mean) ** 2))),
        "score at 5": float(np.exp(y.min() - y[five].min())),
        "within 1 spread": float((np.abs(y - mean) < spread).mean()),
    }


def main() -> None:
    """Judge each model above each bound on every workload and budget."""
    dataset = load_dataset(shipped_dataset())
    rows = dataset.rows
    broken = rows.loc[np.isinf(rows["latency_s"]), "candidate"]
    rows = rows[rows["sms_granted"].isin(BUDGETS) & ~rows["candidate"].isin(broken)].reset_index(drop=True)
    table = extract(
        [dataset.candidates[i] for i in rows["candidate"]], [dataset.platforms[i] for i in rows["platform"]]
    )
    models: dict[str, Predict] = {"extra trees": trees, "Gaussian process": process}
    y, found = np.log(rows["latency_s"].to_numpy()), []
    for count, early, later in splits(dataset, rows):
        for (name, predict), (above, bound) in (
            (model, bound) for model in models.items() for bound in bounds(table).items()
        ):
            mean, spread = predict(table.values[early], (y - bound)[early], table.values[later])
            mean += bound[later]
            for sms in BUDGETS:
                at = (rows["sms_granted"].to_numpy()[later] == sms).nonzero()[0]
                judged = judge(y[later][at], mean[at], spread[at])
                found.append({"kernels": count, "model": name, "above": above, **judged})
    print(pd.DataFrame(found).groupby(["kernels", "model", "above"], sort=False).mean().round(3).to_string())


if __name__ == "__main__":
    main()
