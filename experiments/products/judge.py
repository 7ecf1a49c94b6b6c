"""How good are first choices among all back ends for products of models that were never measured?"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import rounded, say
from rules import RULES
from study import FAMILIES, H200_L2_BYTES, Learned, carry_to_h100, fit_rates, hold_out, spread_of

from costmodel.arrays import FloatArray
from costmodel.benchmark._pose_products import WHOLE_SMS
from costmodel.benchmark.entries._nearest_shape import NearestShape
from costmodel.benchmark.entries._product_rules import NvMatmulHeuristics, Rule
from costmodel.errors import CostModelError
from costmodel.files import write_json
from costmodel.products._choose import is_usual
from costmodel.products._measured import Measured, read_measured
from costmodel.products._product import Product

OURS, LISTED = "costmodel", "costmodel, with cuBLASLt's list"
ANALYTIC = "costmodel, analytic core alone"
SURE, MARGIN = "costmodel, with the list and a margin of 1.3", 1.3
THERE, THERE_LISTED = "costmodel, some of it learned", "costmodel, with the list, some of it learned"
PARTS = (("8-32", 8, 32), ("8-64", 8, 64), ("96", 96, 96), ("132", WHOLE_SMS, WHOLE_SMS))
COLUMNS = ["task", "rule", "sms", "dtype", "m", "quality", "best_of_3", "seconds"]


def main() -> None:
    options = _options()
    measured = read_measured(options.measured)
    say(f"{len(measured.products)} tasks, {len(measured.kernels)} kernels")
    # Some fifteen numbers for all products: they are fitted to all, those that are held out included.
    rates = fit_rates(measured, WHOLE_SMS, H200_L2_BYTES, 0, 40 if options.quick else 250)
    learned = Learned.of(measured, rates, WHOLE_SMS)
    gpus, trees = [learned], 20 if options.quick else 250
    if options.other:
        gpus.append(Learned.of(read_measured(options.other), carry_to_h100(rates), WHOLE_SMS))
    say("described")
    held, there = _Held(gpus[0]), [_Held(each) for each in gpus[1:]]
    for seed in range(options.seeds):
        own, *others = hold_out(gpus, gpus, seed, trees)
        held.add(own, (OURS, LISTED), seed)
        held.tasks.append(_judge(measured, keep_usual(measured, own[0]), SURE, seed))
        say(f"seed {seed}: {held.tasks[-3].quality.median():.4f}, {held.tasks[-2].quality.median():.4f}")
        for each, said in zip(there, others, strict=True):
            each.add(said, (THERE, THERE_LISTED), seed)
            each.add(hold_out([each.learned], gpus[:1], seed, trees)[0], (OURS, LISTED), seed)
    for each in (held, *there):
        each.tasks.append(_judge(each.learned.measured, np.log(each.learned.blind_s), ANALYTIC))
        each.tasks += [
            _judge_rule(each.learned.measured, rule, name) for name, rule in _rules(each.learned.measured)
        ]
    found = held.summary()
    found["rates"] = {dtype: each._asdict() for dtype, each in rates.items()}
    if there:
        found["other"] = there[0].summary()
    options.out.mkdir(parents=True, exist_ok=True)
    write_json(options.out / "result.json", rounded(found, 4))
    print(json.dumps(rounded({k: v for k, v in found.items() if k != "rates"}, 4), indent=1))


class _Held:
    """What was said of a GPU's rows while their families were held out."""

    def __init__(self, learned: Learned) -> None:
        self.learned, self.tasks = learned, list[pd.DataFrame]()
        self._errors: dict[str, list[FloatArray]] = {}

    def add(self, said: tuple[FloatArray, FloatArray], names: tuple[str, str], seed: int) -> None:
        """Judge log seconds, known with cuBLASLt's list and without; names of without, and of with."""
        (listed, blind), (name, name_listed) = said, names
        self._errors.setdefault(name, []).append(blind - self.learned.log_s)
        measured = self.learned.measured
        self.tasks += [_judge(measured, blind, name, seed), _judge(measured, listed, name_listed, seed)]

    def summary(self) -> dict[str, Any]:
        """How much was judged, and how."""
        measured = self.learned.measured
        errors = {
            name: _latency_errors(measured, np.mean(each, axis=0)) for name, each in self._errors.items()
        }
        return {
            "tasks": len(measured.products), "kernels": len(measured.kernels),
            "shapes": len(set(measured.products)),
            **summarise(pd.concat(self.tasks, ignore_index=True)),
            "latency_error": errors.pop(OURS), "latency_error_learned": errors.get(THERE),
        }  # fmt: skip


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, nargs="+", help="tables of an H200")
    parser.add_argument("--other", type=Path, nargs="*", default=[], help="tables of an H100")
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--quick", action="store_true", help="few trees, to try the script")
    return parser.parse_args()


def keep_usual(measured: Measured, expected: FloatArray) -> FloatArray:
    """Put cuBLASLt's first algorithm first, unless another is expected to be faster by the margin."""
    found = expected.copy()
    for i in range(len(measured.products)):
        task, kernels = measured.task(i), measured.kernels[measured.task(i)]
        least = expected[task].min()
        for j, kernel in enumerate(kernels, task.start):
            if is_usual(kernel, kernels) and expected[j] <= least + np.log(MARGIN):
                found[j] = least - 1
    return found


def _judge(measured: Measured, expected: FloatArray, name: str, seed: int = 0) -> pd.DataFrame:
    """Judge first choices, and the best of three, of each task by what is expected; lower is better."""
    seconds = measured.rows.seconds.to_numpy(np.float64)
    rows = []
    for i, (product, sms) in enumerate(zip(measured.products, measured.sms, strict=True)):
        here = seconds[measured.task(i)]
        order = np.argsort(expected[measured.task(i)], kind="stable")
        first, three = here[order[0]], here[order[:3]].min()
        rows.append((i, name, sms, product.dtype, product.m, here.min() / first, here.min() / three, first))
    return pd.DataFrame(rows, columns=COLUMNS).assign(seed=seed)


def _rules(measured: Measured) -> Iterator[tuple[str, Rule]]:
    yield from RULES.items()
    try:
        yield "nvMatmulHeuristics", NvMatmulHeuristics()
    except (CostModelError, OSError) as error:
        say(f"nvMatmulHeuristics is left out: {error}")
    yield "nearest shape", _Nearest(measured)


class _Nearest:
    """The nearest shape of another family."""

    def __init__(self, measured: Measured) -> None:
        seconds = measured.rows.seconds.to_numpy(np.float64)
        families = measured.rows.family.to_numpy()[measured.starts[:-1]]
        self._folds = {}
        for names in FAMILIES:
            others = [i for i in range(len(families)) if families[i] not in names]
            ranked = []
            for i in others:
                order = np.argsort(seconds[measured.task(i)])
                ranked.append([measured.kernels[measured.task(i)][j] for j in order])
            rule = NearestShape(
                [measured.products[i] for i in others], [measured.sms[i] for i in others], ranked
            )
            products = {measured.products[i] for i in range(len(families)) if families[i] in names}
            self._folds.update(dict.fromkeys(products, rule))

    def __call__(self, product: Product, kernels: Sequence[Any], sms: int) -> FloatArray:
        return self._folds[product](product, kernels, sms)


def _judge_rule(measured: Measured, rule: Rule, name: str) -> pd.DataFrame:
    """The same for a rule's scores: ties count as drawn at random, what it does not know as never chosen."""
    seconds = measured.rows.seconds.to_numpy(np.float64)
    rows = []
    for i, (product, sms) in enumerate(zip(measured.products, measured.sms, strict=True)):
        here = seconds[measured.task(i)]
        scores = rule(product, measured.kernels[measured.task(i)], sms)
        if np.isnan(scores).all():
            continue
        chosen = here[scores == np.nanmax(scores)]
        quality = float(np.mean(here.min() / chosen))
        order = np.argsort(-scores, kind="stable")[: min(3, np.count_nonzero(~np.isnan(scores)))]
        three = here.min() / here[order].min()
        rows.append(
            (i, name, sms, product.dtype, product.m, quality, three, float(np.exp(np.log(chosen).mean())))
        )
    return pd.DataFrame(rows, columns=COLUMNS).assign(seed=0)


def _ratio(times: "pd.Series[float]") -> dict[str, float]:
    """Geometric mean, first percentile and least of how many times as long others take."""
    mean = float(np.exp(np.log(times).mean()))
    return {"geometric_mean": mean, "p1": float(times.quantile(0.01)), "worst": float(times.min())}


def summarise(tasks: pd.DataFrame) -> dict[str, Any]:
    """Quality by rule and SMs, and how many times as long as ours the others' choices take."""
    grouped = tasks.groupby(["rule", "sms"])
    quality = grouped.quality.quantile([0.1, 0.5]).unstack()
    three = grouped.best_of_3.median()
    by_rule: dict[str, Any] = {}
    for rule, sms in quality.index:
        here = {"median": quality.loc[(rule, sms), 0.5], "p10": quality.loc[(rule, sms), 0.1]}
        counts = {"mean": grouped.quality.mean()[rule, sms], "tasks": int(grouped.task.nunique()[rule, sms])}
        by_rule.setdefault(rule, {})[str(sms)] = {**here, "best_of_3": three[rule, sms], **counts}
    low, whole = tasks.sms < WHOLE_SMS, tasks.sms == WHOLE_SMS
    overall = {
        str(rule): {
            label: {
                "median": rows.quality[part].median(), "p10": rows.quality[part].quantile(0.1),
                "best_of_3": rows.best_of_3[part].median(),
                "best_of_3_p10": rows.best_of_3[part].quantile(0.1),
            }
            for label, part in (("8-96", low), ("132", whole))
        }
        for rule, rows in tasks.groupby("rule")
    }  # fmt: skip
    seeds = tasks[tasks.rule == OURS].groupby("seed").quality.median()
    bases = {"slower_than_ours": OURS, "slower_than_listed": LISTED, "slower_than_sure": SURE}
    slower = {name: _slower_than(tasks, rule) for name, rule in bases.items() if rule in by_rule}
    return {"overall": overall, "by_sms": by_rule, **slower, "seeds": seeds.tolist()}


def _slower_than(tasks: pd.DataFrame, rule: str) -> dict[str, Any]:
    """How many times as long others' choices take as a rule's, by SMs; seeds by their geometric mean."""
    log_s = np.log(tasks.seconds).groupby([tasks.rule, tasks.task]).mean().unstack(level=0)
    sms = tasks.groupby("task").sms.first()
    return {
        str(other): {
            name: _ratio(np.exp((log_s[other] - log_s[rule])[(low <= sms) & (sms <= high)].dropna()))
            for name, low, high in PARTS
        }
        for other in log_s.columns.drop(rule)
    }


def _latency_errors(measured: Measured, log_error: FloatArray) -> dict[str, float]:
    """Median relative errors on products that were held out: of all kernels, and of those near the best."""
    seconds = measured.rows.seconds
    near = (seconds / measured.rows.groupby("task").seconds.transform("min") <= 1.2).to_numpy()
    inside = spread_of(measured.kernels, log_error)
    return {
        "all": float(np.median(np.abs(np.expm1(log_error)))),
        "near_best": float(np.median(np.abs(np.expm1(log_error[near])))),
        "half_width_90": float(np.mean(inside[:, 1] - inside[:, 0]) / 2),
    }


if __name__ == "__main__":
    main()
