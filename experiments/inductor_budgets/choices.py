"""How good are choices among Inductor's candidates on parts of a GPU? See README.md here.

``--others`` asks those who preselect candidates in Inductor as well: Origami's formulas, and
nvMatmulHeuristics, which must be installed.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.benchmark.entries._product_rules import NvMatmulHeuristics, Rule, origami
from costmodel.files import write_json
from costmodel.integrations.inductor._candidates import choose_to_time, only_sure
from costmodel.integrations.inductor._choices import slower_call
from costmodel.integrations.inductor._models import FITTED, FittedRanking, RanksProducts
from costmodel.products import Kernel, Product
from costmodel.products._model import SHIPPED

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import rounded

DATASET = Path(__file__).parents[2] / "datasets" / "inductor-sm-budgets"
PRODUCT, KERNEL = list(Product._fields), list(Kernel._fields[:10])
KEEP, WHOLE = 6, 132
MODELS = {"ours": FITTED, "products": SHIPPED}  # ours has learned from the table itself: see fit.py
RULES = ("ours", "ours, six timed", "library", "best on the whole GPU", "Inductor's first six, timed")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--model", choices=MODELS, default="ours", help="that ranks candidates")
    parser.add_argument("--others", action="store_true", help="choose as Origami and nvMatmulHeuristics do")
    args = parser.parse_args()
    others = {"Origami": origami, "nvMatmulHeuristics": NvMatmulHeuristics()} if args.others else {}
    found = {}
    for device, measured in read_table().groupby("device", observed=True):
        found[str(device)] = judge(measured, MODELS[args.model], others)
        print(f"{device}\n\n{table(found[str(device)])}\n")
    if args.json:
        write_json(args.json, rounded(found))


def read_table(folder: Path = DATASET) -> pd.DataFrame:
    """A row for each candidate of a product on each number of SMs: what it is, and its seconds."""
    columns = ["workload", "dims", "config", "device", "sms_granted", "outcome", "latencies_s", "visit"]
    rows = pd.read_parquet(folder / "measurements.parquet", columns=columns)
    rows = rows[rows.workload.str.startswith("inductor.product.") & (rows.outcome == "ok")]
    parts = (
        rows.workload.str.split("-").str[0].str.split(".", expand=True).reindex(columns=range(5)).fillna("")
    )
    dims, configs = (pd.DataFrame(map(json.loads, rows[name]), rows.index) for name in ("dims", "config"))
    defaults = Kernel("triton")._asdict()
    known = configs.reindex(columns=["position", "template", "programs", *KERNEL])
    known = known.fillna({name: defaults[name] for name in KERNEL})
    whole = [name for name in KERNEL if name not in ("backend", "kind")]
    made = known.astype(dict.fromkeys((*whole, "position", "programs"), int)).assign(
        device=rows.device.str["name"], workload=rows.workload, sms=rows.sms_granted, visit=rows.visit,
        m=dims.m, n=dims.n, k=dims.k, batch=dims.b, dtype=parts[2], layout=parts[3], epilogue=parts[4],
        seconds=rows.latencies_s.str[0],
    )  # fmt: skip
    made.loc[(made.backend == "torch") & (made.kind == "plain"), "kind"] = ""
    keys = [name for name in made.columns if name not in ("visit", "seconds")]
    timed = made.pivot_table(index=keys, columns="visit", values="seconds", observed=True).reset_index()
    return timed.rename(columns={0: "warm_s", 1: "again_s"})


def judge(table: pd.DataFrame, file: Path, others: Mapping[str, Rule]) -> dict[str, Any]:
    """Return best / chosen of each rule, by SMs: median and tenth percentile over products."""
    model = FittedRanking(file)
    scores: dict[tuple[str, int], list[float]] = {}
    for _, rows in table.groupby(PRODUCT, observed=True, sort=False):
        for sms, score in _judge_product(rows, model, others):
            for rule, value in score.items():
                scores.setdefault((rule, sms), []).append(value)
    again = table.dropna(subset="again_s")
    return {
        "products": len(scores[RULES[0], WHOLE]),
        "candidates": len(table) // table.sms.nunique(),
        "score": {
            rule: {str(sms): _quantiles(each, 0.5, 0.1) for (of, sms), each in scores.items() if of == rule}
            for rule in dict.fromkeys(rule for rule, _ in scores)
        },
        "repeat_difference": _quantiles(abs(again.again_s / again.warm_s - 1), 0.5, 0.9),
    }


def _quantiles(values: Any, *places: float) -> list[float]:
    return [float(np.quantile(values, each)) for each in places]


def _judge_product(
    rows: pd.DataFrame, model: RanksProducts, others: Mapping[str, Rule]
) -> Iterator[tuple[int, dict[str, float]]]:
    """Scores of each rule on each number of SMs."""
    product = Product(*(each if isinstance(each, str) else int(each) for each in rows[PRODUCT].iloc[0]))
    rows = rows[rows.template != slower_call(set(rows.template), product.dtype)]
    on_whole = rows[rows.sms == WHOLE].set_index("position").warm_s
    for sms, all_on_part in rows.groupby("sms"):
        # Persistent kernels run with as many programs as there are SMs, where that was measured.
        programs = all_on_part.programs
        fits = (programs == 0) | (programs == (sms if (programs == sms).any() else WHOLE))
        on_part = all_on_part[fits & all_on_part.warm_s.notna()].sort_values("position")
        seconds = on_part.warm_s.to_numpy(np.float64)
        kernels = [Kernel(*row) for row in on_part[KERNEL].itertuples(index=False)]
        of_library = [each.backend == "torch" and each.splits == 1 for each in kernels]
        predicted = model.predict_seconds(product, kernels, int(sms), str(on_part.device.iloc[0]))
        sure_s = only_sure(predicted, of_library, product.dtype, on_part=int(sms) < WHOLE)
        in_order = np.arange(len(kernels), dtype=np.float64)
        chosen = {
            "ours": choose_to_time(sure_s, of_library, 0),
            "ours, six timed": choose_to_time(predicted, of_library, KEEP),
            "library": [i for i, each in enumerate(of_library) if each],
            "best on the whole GPU": [int(on_part.position.map(on_whole).to_numpy().argmin())],
            "Inductor's first six, timed": choose_to_time(in_order, of_library, KEEP),
        }
        for name, rule in others.items():  # what it does not know comes last
            score = -rule(product, kernels, int(sms))
            chosen[f"{name}, first"] = choose_to_time(score, of_library, 0)
            chosen[f"{name}, six timed"] = choose_to_time(score, of_library, KEEP)
        best = seconds.min()
        yield int(sms), {rule: float(best / seconds[picked].min()) for rule, picked in chosen.items()}


def table(found: dict[str, Any]) -> str:
    """Markdown: median and tenth percentile of best / chosen."""
    sms = [*found["score"][RULES[0]]]
    lines = [f"| choice | {' | '.join(sms)} |", "| --- |" + " ---: |" * len(sms)]
    for rule, of_rule in found["score"].items():
        cells = [f"{middle:.2f}; {low:.2f}" for middle, low in of_rule.values()]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    middle, high = found["repeat_difference"]
    said = f"{found['products']} products, {found['candidates']} candidates"
    return "\n".join([*lines, "", f"{said}; A/A {middle:.1%}, 90th percentile {high:.1%}"])


if __name__ == "__main__":
    main()
