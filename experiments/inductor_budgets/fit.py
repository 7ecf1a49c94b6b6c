"""Fit the model that ranks Inductor's kernels: the first trees of the shipped model of products, boosted on.

The later trees tell other back ends apart, and would make the file three times as large for the same choices.

With ``--judge``, products are held out instead, those with the same weights together, and choices among their
candidates are judged, by five ways to divide them.
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
from costmodel.files import write_json
from costmodel.integrations.inductor._candidates import choose_to_time, only_sure
from costmodel.integrations.inductor._choices import slower_call
from costmodel.integrations.inductor._models import FITTED
from costmodel.products import Kernel, Product
from costmodel.products._columns import kernel_columns
from costmodel.products._core import Rates, time_terms
from costmodel.products._model import ProductModel, shipped_products
from costmodel.products._product import OPERAND_BYTES

sys.path += [
    str(Path(__file__).parents[1]),
    str(Path(__file__).parents[1] / "products"),
    str(Path(__file__).parent),
]
from choices import KEEP, KERNEL, PRODUCT, WHOLE, read_table
from kit.results import markdown_table, rounded
from study import complete, fit_trees

FOLDS, SEEDS = 8, 5
RULES = ("ours, nothing timed", f"ours, best of {KEEP}")
KNOWN, TREES, POWER = 60, 70, 1.0  # trees of the shipped model, and beyond them


class Task(NamedTuple):
    """Candidates of a product on a number of SMs.

    Attributes:
        group: Of products with the same weights.
        dtype: Of the product.
        device: Where it was measured.
        sms: SMs.
        kernels: Candidates.
        X: ``(n, columns)``.
        known: ``(n,)`` log seconds by the first trees of the shipped model.
        log_s: ``(n,)`` measured.
    """

    group: int
    dtype: str
    device: str
    sms: int
    kernels: list[Kernel]
    X: FloatArray
    known: FloatArray
    log_s: FloatArray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    tasks = list(read_tasks(read_table()))
    if args.judge:
        found = judge(tasks)
        print("\n\n".join(f"{device}\n\n{table(each)}" for device, each in found.items()))
        if args.json:
            write_json(args.json, rounded(found))
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
    for _, of_product in table.groupby([*PRODUCT, "device"], observed=True, sort=False):
        first = of_product[PRODUCT].iloc[0]
        product = Product(*(each if isinstance(each, str) else int(each) for each in first))
        weights = frozenset((product.n, product.k)), product.batch > 1
        group = groups.setdefault(weights, len(groups))
        device = str(of_product.device.iloc[0])
        rows = of_product[of_product.template != slower_call(set(of_product.template), product.dtype)]
        for sms, all_on_part in rows.groupby("sms"):
            programs = all_on_part.programs
            fits = (programs == 0) | (programs == (sms if (programs == sms).any() else WHOLE))
            fits &= all_on_part.warm_s.notna() & (all_on_part.kind != "decompose-k")
            on_part = all_on_part[fits].sort_values("position")
            kernels = [Kernel(*row) for row in on_part[KERNEL].itertuples(index=False)]
            place = list(OPERAND_BYTES).index(product.dtype)
            rates = Rates(*model.rates[model.place_of(device), place].tolist())
            terms = time_terms(product, kernels, int(sms), rates, WHOLE)
            X = kernel_columns(product, kernels, int(sms), terms, sizes_known=True)
            known = np.log(model.predict(product, kernels, int(sms), device).seconds)
            log_s = np.log(on_part.warm_s.to_numpy(np.float64))
            yield Task(group, product.dtype, device, int(sms), kernels, X, known, log_s)


def fit(tasks: list[Task], seed: int = 0) -> Any:
    """Fit trees to the log of measured over predicted seconds; what is far from the best counts less."""
    X = np.concatenate([each.X for each in tasks])
    log_ratio = np.concatenate([each.log_s - each.known for each in tasks])
    weights = np.concatenate([np.exp(POWER * (each.log_s.min() - each.log_s)) for each in tasks])
    return fit_trees(X, log_ratio, weights, seed, TREES)


def judge(tasks: list[Task]) -> dict[str, Any]:
    """Return best / chosen for held-out products by device, rule and SMs, means over seeds.

    Median and tenth percentile over products, and by how much the latter differs between seeds; of
    latencies, the median error.
    """
    quantiles: dict[tuple[str, int], list[FloatArray]] = {}
    for seed in range(SEEDS):
        scores: dict[tuple[str, int], list[tuple[float, ...]]] = {}
        for task, score in _held_out(tasks, seed):
            scores.setdefault((task.device, task.sms), []).append(score)
        for where, each in scores.items():
            quantiles.setdefault(where, []).append(np.quantile(each, (0.5, 0.1), axis=0))
    found: dict[str, Any] = {}
    for (device, sms), by_seed in sorted(quantiles.items()):
        (middle, low), differ = np.mean(by_seed, 0), np.ptp(by_seed, 0)[1]
        of_device = found.setdefault(device, {"products": 0, "best / chosen": {}, "error": {}})
        of_device["products"] = max(of_device["products"], len(scores[device, sms]))
        for i, rule in enumerate(RULES):
            of_rule = of_device["best / chosen"].setdefault(rule, {})
            of_rule[str(sms)] = [float(middle[i]), float(low[i]), float(differ[i])]
        of_device["error"][str(sms)] = float(middle[-1])
    return found


def table(found: dict[str, Any]) -> str:
    """Markdown of what was found on a device."""
    sms = [*found["error"]]
    rows = [
        [rule, *(f"{middle:.2f}; {low:.2f}" for middle, low, _ in of_rule.values())]
        for rule, of_rule in found["best / chosen"].items()
    ]
    differ = max(each[2] for each in found["best / chosen"][RULES[0]].values())
    said = f"{found['products']} products; seeds differ by {differ:.3f} at most"
    rows.append(["error of latencies", *(f"{each:.0%}" for each in found["error"].values())])
    return f"{markdown_table(['choice', *sms], rows)}\n\n{said}"


def _held_out(tasks: list[Task], seed: int) -> Iterator[tuple[Task, tuple[float, ...]]]:
    """Best / chosen by each rule, and the median error, by trees that never saw the weights."""
    import xgboost as xgb

    groups = np.random.default_rng(seed).permutation(1 + max(each.group for each in tasks))
    fold = [int(groups[each.group]) % FOLDS for each in tasks]
    for left_out in range(FOLDS):
        booster = fit([each for each, of in zip(tasks, fold, strict=True) if of != left_out], seed)
        for task in (each for each, of in zip(tasks, fold, strict=True) if of == left_out):
            predicted = task.known + booster.predict(xgb.DMatrix(task.X.astype(np.float32)))
            of_library = [each.backend == "torch" and each.splits == 1 for each in task.kernels]
            sure_s = only_sure(np.exp(predicted), of_library, task.dtype, on_part=task.sms < WHOLE)
            alone = choose_to_time(sure_s, of_library, 0)
            picked = [alone, choose_to_time(predicted, of_library, KEEP)]
            scores = [float(np.exp(task.log_s.min() - task.log_s[each].min())) for each in picked]
            yield task, (*scores, float(np.median(abs(predicted - task.log_s))))


if __name__ == "__main__":
    main()
