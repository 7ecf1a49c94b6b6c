"""Fit the model that ranks Inductor's kernels: the first trees of the shipped model of products, boosted on.

The later trees tell other back ends apart, and would make the file three times as large for the same choices.

With ``--judge``, products are held out instead, those with the same weights together, and choices among their
candidates are judged.
"""

import argparse
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.integrations.inductor._candidates import choose_to_time
from costmodel.integrations.inductor._choices import slower_call
from costmodel.integrations.inductor._models import FITTED
from costmodel.products import Kernel, Product
from costmodel.products._columns import kernel_columns
from costmodel.products._core import Rates, time_terms
from costmodel.products._model import ProductModel, shipped_products
from costmodel.products._product import OPERAND_BYTES

sys.path += [str(Path(__file__).parents[1] / "products"), str(Path(__file__).parent)]
from choices import KEEP, KERNEL, PRODUCT, WHOLE, read_table
from study import complete, fit_trees

FOLDS, KNOWN, TREES, POWER = 8, 60, 80, 1.0  # trees of the shipped model, and beyond them


class Task(NamedTuple):
    """Candidates of a product on a number of SMs.

    Attributes:
        group: Of products with the same weights.
        sms: SMs.
        kernels: Candidates.
        X: ``(n, columns)``.
        known: ``(n,)`` log seconds by the first trees of the shipped model.
        log_s: ``(n,)`` measured.
    """

    group: int
    sms: int
    kernels: list[Kernel]
    X: FloatArray
    known: FloatArray
    log_s: FloatArray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", action="store_true")
    args = parser.parse_args()
    tasks = list(read_tasks(read_table()))
    if args.judge:
        print(judge(tasks))
        return
    shipped, (splits, thresholds, leaves) = first_trees(), complete(fit(tasks))
    joined = {
        "splits": np.concatenate([shipped.splits, splits]),
        "thresholds": np.concatenate([shipped.thresholds, thresholds]),
        "leaves": np.concatenate([shipped.leaves, leaves]),
    }
    others = {name: getattr(shipped, name) for name in ("devices", "sms", "rates", "spread")}
    ProductModel(**others, **joined).save(FITTED)
    print(f"{FITTED}: {FITTED.stat().st_size / 1024:.0f} KiB")


def first_trees() -> ProductModel:
    """The shipped model without its later trees."""
    shipped = shipped_products()
    return replace(
        shipped,
        splits=shipped.splits[:KNOWN],
        thresholds=shipped.thresholds[:KNOWN],
        leaves=shipped.leaves[:KNOWN],
    )


def read_tasks(table: pd.DataFrame) -> Iterator[Task]:
    """Yield what was measured, with the columns and the prediction of the shipped model."""
    model, groups = first_trees(), dict[Any, int]()
    for _, of_product in table.groupby(PRODUCT, observed=True, sort=False):
        first = of_product[PRODUCT].iloc[0]
        product = Product(*(each if isinstance(each, str) else int(each) for each in first))
        weights = frozenset((product.n, product.k)), product.batch > 1
        group = groups.setdefault(weights, len(groups))
        rows = of_product[of_product.template != slower_call(set(of_product.template), product.dtype)]
        for sms, all_on_part in rows.groupby("sms"):
            programs = all_on_part.programs
            fits = (programs == 0) | (programs == (sms if (programs == sms).any() else WHOLE))
            fits &= all_on_part.warm_s.notna() & (all_on_part.kind != "decompose-k")
            on_part = all_on_part[fits].sort_values("position")
            kernels = [Kernel(*row) for row in on_part[KERNEL].itertuples(index=False)]
            device = str(on_part.device.iloc[0])
            place = list(OPERAND_BYTES).index(product.dtype)
            rates = Rates(*model.rates[model.place_of(device), place].tolist())
            terms = time_terms(product, kernels, int(sms), rates, WHOLE)
            X = kernel_columns(product, kernels, int(sms), terms, sizes_known=True)
            known = np.log(model.predict(product, kernels, int(sms), device).seconds)
            yield Task(group, int(sms), kernels, X, known, np.log(on_part.warm_s.to_numpy(np.float64)))


def fit(tasks: list[Task]) -> Any:
    """Fit trees to the log of measured over predicted seconds; what is far from the best counts less."""
    X = np.concatenate([each.X for each in tasks])
    log_ratio = np.concatenate([each.log_s - each.known for each in tasks])
    weights = np.concatenate([np.exp(POWER * (each.log_s.min() - each.log_s)) for each in tasks])
    return fit_trees(X, log_ratio, weights, 0, TREES)


def judge(tasks: list[Task]) -> str:
    """Markdown: best / chosen for held-out products by SMs, median and tenth percentile, and the error."""
    import xgboost as xgb

    found: dict[int, list[tuple[float, float, float]]] = {}
    for fold in range(FOLDS):
        booster = fit([each for each in tasks if each.group % FOLDS != fold])
        for task in (each for each in tasks if each.group % FOLDS == fold):
            predicted = task.known + booster.predict(xgb.DMatrix(task.X.astype(np.float32)))
            of_library = [each.backend == "torch" and each.splits == 1 for each in task.kernels]
            picked = [choose_to_time(predicted, of_library, keep) for keep in (0, KEEP)]
            first, six = (float(np.exp(task.log_s.min() - task.log_s[each].min())) for each in picked)
            found.setdefault(task.sms, []).append((first, six, float(np.median(abs(predicted - task.log_s)))))
    lines = ["| SMs | first choice | best of six | error |", "| ---: | ---: | ---: | ---: |"]
    for sms, scores in sorted(found.items()):
        (first, six, error), (low, low_of_six, _) = np.median(scores, 0), np.quantile(scores, 0.1, 0)
        lines.append(f"| {sms} | {first:.2f}; {low:.2f} | {six:.2f}; {low_of_six:.2f} | {error:.0%} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
