"""How far is what is said of kernels beside each other from what was measured? See README.md here."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from learned import COMBINED, KNOWING_COLD, LEARNED, fit_waits, held_out, operators, random_groups, waits
from measured import Array, Measured, read
from numpy.typing import NDArray
from shares import by_shares, of_data_sheet

from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table
from options import parse_options


def main() -> None:
    args = parse()
    measured = read(args.data)
    found = {"pairs": len(measured.kernels), "kernels": len(np.unique(measured.kernels))}
    judged: dict[str, dict[str, dict[str, float]]] = {}
    again = repeats(measured)
    for what, names in (("kernels", measured.kernels), ("operators", operators(measured.kernels))):
        told = predictions(measured, random_groups(names, args.groups))
        judged[what] = {name: judge(measured, each) for name, each in told.items()}
        print(f"Never seen: the {what} of a pair\n\n{table(judged[what], again)}\n")
    weights = fit_waits(measured, waits).tolist()
    print(f"Waits fitted to all {found['pairs']} pairs: {', '.join(f'{each:.2f}' for each in weights)}")
    if args.json:
        write_json(args.json, found | {"never_seen": judged, "again": again, "waits": weights})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, metavar="DIR", help="folder that measure.py wrote")
    parser.add_argument("--groups", type=int, help="of kernels or operators; those of a pair are left out")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    return parse_options(parser, __file__, argv)


def predictions(measured: Measured, groups: NDArray[np.int64]) -> dict[str, Array]:
    """``(pairs, 2)`` slowdowns, by what says them; what is learned has seen neither group of a pair."""
    found = {
        "no slowdown": np.ones_like(measured.slowdowns),
        "mean of pairs of other kernels": held_out(measured, groups, mean_of_others),
    }
    found |= {name: by_shares(shared, measured) for name, shared in of_data_sheet(measured).items()}
    for learned, knowing in ((LEARNED, ""), (KNOWING_COLD, ", cold latencies known")):
        told = {name: held_out(measured, groups, predict) for name, predict in learned.items()}
        both = np.sqrt(np.prod([told[name] for name in COMBINED], axis=0))
        found |= {name + knowing: each for name, each in told.items()}
        found[f"geometric mean of {' and '.join(COMBINED)}{knowing}"] = both
    return found


def mean_of_others(known: Measured, asked: Measured) -> Array:
    """The mean slowdown of the known pairs, for all."""
    return np.full(asked.slowdowns.shape, known.slowdowns.mean())


def judge(measured: Measured, predicted: Array) -> dict[str, float]:
    """Errors, of all and of kernels that take over 10 % longer, and decisions that are right.

    Two kernels run together where that takes less time than one after the other on the whole device.
    """
    error = np.abs(predicted / measured.slowdowns - 1)
    slowed = measured.slowdowns > 1.1
    in_turn_s = measured.whole_s.sum(axis=1)
    together = (measured.alone_s * measured.slowdowns).max(axis=1) < in_turn_s
    said_together = (measured.alone_s * predicted).max(axis=1) < in_turn_s
    return {
        "mean": float(np.nanmean(error)),
        "median": float(np.nanmedian(error)),
        "p90": float(np.nanquantile(error, 0.9)),
        "mean_of_slowed": float(np.nanmean(error[slowed])) if slowed.any() else np.nan,
        "right": float(np.mean(together == said_together)),
    }


def repeats(measured: Measured) -> dict[str, float]:
    """How far slowdowns are from those of the same pairs, measured again."""
    if not len(measured.again):
        return {"pairs": 0}
    shift = np.abs(measured.again[:, 1] / measured.again[:, 0] - 1)
    return {
        "pairs": len(shift),
        "mean": float(shift.mean()),
        "median": float(np.median(shift)),
        "p90": float(np.quantile(shift, 0.9)),
    }


def table(judged: Mapping[str, Mapping[str, float]], again: Mapping[str, float]) -> str:
    """Markdown."""
    heads = (
        "error: mean",
        "median",
        "90th percentile",
        "slowed by over 10 %: mean",
        "together or in turn right",
    )
    rows = [[name, *map(percent, found.values())] for name, found in judged.items()]
    if again["pairs"]:
        shares = (percent(again[each]) for each in ("mean", "median", "p90"))
        rows.append([f"measured again (A/A, {again['pairs']} pairs)", *shares, "", ""])
    return markdown_table(("slowdown", *heads), rows)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


if __name__ == "__main__":
    main()
