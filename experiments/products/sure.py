"""By what margins may ``costmodel::mm`` leave PyTorch's call, so that it is hardly ever slower?

A margin is how many times as long PyTorch's call must be expected to take. It is the least by which at most
0.5 % of the choices for products of other families are over 2 % slower than PyTorch's call, and is judged on
families that took no part, in the model neither.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import rounded, say
from study import FAMILIES, H200_L2_BYTES, Learned, carry_to_h100, fit_rates, hold_out

from costmodel.arrays import FloatArray
from costmodel.benchmark._pose_products import WHOLE_SMS
from costmodel.files import write_json
from costmodel.products._measured import Measured, read_measured
from costmodel.products._operator import _TYPES, kind_of_margin

MARGINS = 1.0, 1.02, 1.05, 1.08, 1.1, 1.15, 1.2, 1.25, 1.3, 1.4, 1.5, 1.75, 2.0, 2.5, 3.0
_ALLOWED, _SLOWER = 0.005, 1.02
Margins = dict[tuple[str, str], float]
_PARTS = (("8-32", 8, 32), ("8-64", 8, 64), ("96", 96, 96), ("132", WHOLE_SMS, WHOLE_SMS))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--h200", type=Path, default=Path("datasets/products-sm-budgets/h200.parquet"))
    parser.add_argument("--h100", type=Path, default=Path("datasets/products-sm-budgets/h100.parquet"))
    parser.add_argument("--out", type=Path, required=True, help="file for the result")
    parser.add_argument("--seeds", type=int, default=2)
    options = parser.parse_args()
    measured = read_measured([options.h200]), read_measured([options.h100])
    rates = fit_rates(measured[0], WHOLE_SMS, H200_L2_BYTES, 0)
    h200 = Learned.of(measured[0], rates, WHOLE_SMS)
    h100 = Learned.of(measured[1], carry_to_h100(rates), WHOLE_SMS)
    tables: dict[str, list[pd.DataFrame]] = {"h200": [], "h100": []}
    for seed in range(options.seeds):  # the H100 by its datasheet alone
        for name, learned in (("h200", h200), ("h100", h100)):
            ((listed, _),) = hold_out([learned], [h200], seed)
            tables[name].append(_first_choices(learned.measured, listed))
        say(f"seed {seed}")
    there, here = pd.concat(tables["h200"]), pd.concat(tables["h100"])
    margins = _margins(there)
    found: dict[str, Any] = {
        "margins": {" ".join(kind): margin for kind, margin in margins.items()},
    }
    for name, margin in (("without", dict.fromkeys(margins, 1.0)), ("with", margins)):
        own = pd.concat(
            _choose(held, margin if name == "without" else _margins(others)) for held, others in _folds(there)
        )
        found[name] = {"h200": _summary(own), "h100": _summary(_choose(here, margin))}
    write_json(options.out, rounded(found, 4))
    print(json.dumps(rounded(found, 4), indent=1))


def _first_choices(measured: Measured, expected: FloatArray) -> pd.DataFrame:
    """PyTorch's call and the algorithm of cuBLASLt that is expected to be the fastest, of each task."""
    seconds, said = measured.rows.seconds.to_numpy(np.float64), np.exp(expected)
    families = measured.rows.family.to_numpy()
    rows = []
    for i, (product, sms) in enumerate(zip(measured.products, measured.sms, strict=True)):
        if product.dtype not in _TYPES or product.batch > 1 or product.epilogue:
            continue
        told = "told" if sms < WHOLE_SMS else ""
        places = range(measured.task(i).start, measured.task(i).stop)
        own = [j for j in places if measured.kernels[j][:2] == ("cublaslt", told)]
        by_pytorch = [j for j in places if measured.kernels[j].backend == "torch"]
        if own and by_pytorch:
            best = min(own, key=lambda j: said[j])
            ratios = said[by_pytorch[0]] / said[best], seconds[by_pytorch[0]] / seconds[best]
            rows.append((families[places[0]], sms, kind_of_margin(product, sms / WHOLE_SMS), *ratios))
    return pd.DataFrame(rows, columns=["family", "sms", "kind", "expected", "found"])


def _folds(table: pd.DataFrame) -> list[tuple[pd.DataFrame, pd.DataFrame]]:
    """The rows of each group of families, and the others."""
    return [(table[held], table[~held]) for held in (table.family.isin(names) for names in FAMILIES)]


def _margins(table: pd.DataFrame) -> Margins:
    """Return the least margin of each kind of product by which hardly any choice is slower."""
    found = {}
    for kind, rows in table.groupby("kind"):
        slower = rows.expected[rows.found < 1 / _SLOWER]
        found[kind] = next(each for each in MARGINS if (slower > each).sum() <= _ALLOWED * len(rows))
    return found


def _choose(table: pd.DataFrame, margins: Margins) -> pd.DataFrame:
    """Add how many times as long PyTorch's call takes as what is chosen."""
    is_left = (table.expected > table.kind.map(margins)).to_numpy()
    return table.assign(is_left=is_left, gain=np.where(is_left, table.found, 1.0))


def _summary(table: pd.DataFrame) -> dict[str, Any]:
    found = {}
    for name, low, high in _PARTS:
        rows = table[(low <= table.sms) & (table.sms <= high)]
        found[name] = {
            "choices": len(rows), "left": rows.is_left.mean(),
            "geometric_mean": np.exp(np.log(rows.gain).mean()), "slower": (rows.gain < 1 / _SLOWER).mean(),
            "worst": rows.gain.min(),
        }  # fmt: skip
    return found


if __name__ == "__main__":
    main()
