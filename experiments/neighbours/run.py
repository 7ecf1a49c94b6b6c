"""How far is what is said of kernels beside each other from what was measured? See README.md here."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from measured import Array, Measured, read

from costmodel.files import write_json
from costmodel.planner.neighbours import SharedMemory

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options


def main() -> None:
    args = parse()
    measured = read(args.data)
    judged = {name: judge(measured, found) for name, found in predictions(measured).items()}
    again = repeats(measured)
    print(table(judged, again))
    if args.json:
        content = {"pairs": len(measured.kernels), "predictions": judged, "again": again}
        write_json(args.json, content)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder that measure.py wrote")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where results go")
    return parse_options(parser, __file__, argv)


def predictions(measured: Measured) -> dict[str, Array]:
    """``(pairs, 2)`` slowdowns, by what says them."""
    device, without_cache = measured.device, msgspec.structs.replace(measured.device, l2_bytes=0)
    models = {
        "bandwidth": SharedMemory(without_cache, l2_bytes_s=np.inf),
        "bandwidth, L2 capacity": SharedMemory(device, l2_bytes_s=np.inf),
        "bandwidth, L2 capacity, L2 bandwidth": SharedMemory(device),
    }
    by_model = {
        name: np.array(
            [
                model.slowdowns(*each)
                for each in zip(measured.alone_s.tolist(), measured.sizes_bytes.tolist(), strict=True)
            ]
        )
        for name, model in models.items()
    }
    return {
        "no slowdown": np.ones_like(measured.slowdowns),
        "mean of pairs of other kernels": mean_of_others(measured),
        **by_model,
    }


def mean_of_others(measured: Measured) -> Array:
    """The mean slowdown of pairs that have neither kernel; NaN where there is none."""
    found = np.full(measured.slowdowns.shape, np.nan)
    for row, (left, right) in enumerate(measured.kernels):
        others = ~np.isin(measured.kernels, (left, right)).any(axis=1)
        if others.any():
            found[row] = measured.slowdowns[others].mean()
    return found


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
    rows = ["| slowdown | " + " | ".join(heads) + " |", "| --- |" + " ---: |" * len(heads)]
    for name, found in judged.items():
        rows.append(f"| {name} | " + " | ".join(f"{100 * each:.1f} %" for each in found.values()) + " |")
    if again["pairs"]:
        shares = " | ".join(f"{100 * again[each]:.1f} %" for each in ("mean", "median", "p90"))
        rows.append(f"| measured again (A/A, {again['pairs']} pairs) | {shares} | | |")
    return "\n".join(rows)


if __name__ == "__main__":
    main()
