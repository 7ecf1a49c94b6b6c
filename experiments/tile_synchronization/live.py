"""Savings of chains of products, measured by `measure.py`, predicted from other widths. See README.md."""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.files import write_json
from costmodel.planner import MeasuredSaving, Overheads, SavingLaw, TiledKernel, predict_chain
from costmodel.planner._tile_schedule import Saving

POLICIES = ("row", "tile", "strided")
# Assumed between two kernels of a CUDA graph.
GAP_S = 1e-6
# Of an SM of an H100: CUDA programming guide, technical specifications by compute capability.
SHARED_BYTES, REGISTERS, THREADS = 227 * 1024, 65_536, 2048
RESERVED_BYTES = 1024  # of a block's shared memory, by the driver
TIE = 1.0  # points within which policies are alike, in predictions and in measurements
Row = dict[str, Any]


def main() -> None:
    """Print and write the scores of each way."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("measured", type=Path, help="what measure.py wrote")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    args = parser.parse_args()
    found = json.loads(args.measured.read_text())
    rows, sms = found["rows"], found["about"]["sms"]
    for row in rows:
        row["simulated"] = {policy: simulated(row, policy, found["kernels"], sms) for policy in POLICIES}
    measured = 100 * np.array([saved(row) for row in rows])
    result: dict[str, Any] = {"about": found["about"], "repeat": repeat(rows)}
    for name, learned_from in WAYS.items():
        laws = {key(row): learn([other for other in rows if learned_from(other, row)]) for row in rows}
        predicted = 100 * np.array(
            [[laws[key(row)].saving(row["simulated"][policy], policy) for policy in POLICIES] for row in rows]
        )
        result[name] = {
            f"{length} products": scores(predicted[of], measured[of])
            for length in sorted({len(row["grids"]) for row in rows})
            if (of := [len(row["grids"]) == length for row in rows])
        }
        result[name]["all"] = scores(predicted, measured)
        result[name]["row alone"] = scores(predicted[:, :1], measured[:, :1])
        for group, figures in result[name].items():
            print(f"{name}, {group}: { {key: round(value, 2) for key, value in figures.items()} }")
    if args.json:
        write_json(args.json, result)


def key(row: Row) -> tuple[Any, ...]:
    return (row["tokens"], *row["widths"], *row["tile"].values())


def is_other_width(other: Row, row: Row) -> bool:
    """Whether a row is of the same kernel, whose blocks a policy slows down alike, and of other products."""
    return bool(other["tile"] == row["tile"] and other["widths"][:2] != row["widths"][:2])


# Rows that a prediction of a row may know.
WAYS: dict[str, Callable[[Row, Row], bool]] = {
    "the simulation alone": lambda other, row: False,
    "learned from other widths": is_other_width,
    "learned from chains of two of other widths": lambda other, row: (
        len(other["grids"]) == 2 and is_other_width(other, row)
    ),
    "learned from both tiles": lambda other, row: other["widths"][:2] != row["widths"][:2],
}


def simulated(row: Row, policy: str, kernels: Sequence[Row], sms: int) -> Saving:
    """Simulate what a policy saves, from the time of each product alone."""
    at_once = blocks_per_sm(next(each for each in kernels if each["tile"] == row["tile"]))
    chain = [
        TiledKernel.from_duration((*grid, 1), at_once, sms, mean(row, f"alone {i % 2}") - GAP_S)
        for i, grid in enumerate(row["grids"])
    ]
    found = predict_chain(chain, sms, policy, Overheads(gap_s=GAP_S))
    return replace(found, stream_s=mean(row, "stream"))


def blocks_per_sm(kernel: Row) -> int:
    """What registers and shared memory let an SM hold at once."""
    threads = 32 * kernel["tile"]["warps"]
    return int(
        min(
            SHARED_BYTES // (kernel["shared"] + RESERVED_BYTES),
            REGISTERS // (kernel["registers"] * threads),
            THREADS // threads,
        )
    )


def mean(row: Row, way: str) -> float:
    return float(np.mean(row["seconds"][way]))


def saved(row: Row) -> list[float]:
    """What each policy saved, as a part of the time in a stream."""
    return [1 - mean(row, policy) / mean(row, "stream") for policy in POLICIES]


def learn(rows: Sequence[Row]) -> SavingLaw:
    return SavingLaw.fit(
        [
            MeasuredSaving(policy, row["simulated"][policy], saving)
            for row in rows
            for policy, saving in zip(POLICIES, saved(row), strict=True)
        ]
    )


def repeat(rows: Sequence[Row]) -> dict[str, float]:
    """Points by which the same stream differs when it is captured again."""
    off = [100 * abs(mean(row, "again") / mean(row, "stream") - 1) for row in rows]
    return {"median": float(np.median(off)), "largest": max(off)}


def best_policies(savings: Sequence[float]) -> set[str]:
    """Policies within a tie of the best; the stream saves nothing."""
    known = {"stream": 0.0, **dict(zip(POLICIES, savings, strict=False))}
    most = max(known.values())
    return {name for name, saving in known.items() if saving >= most - TIE}


def scores(predicted: np.ndarray, measured: np.ndarray) -> dict[str, float]:
    """Errors in points, right signs, and how much of the named policies are best."""
    off = np.abs(predicted - measured)
    named = [(best_policies(p), best_policies(m)) for p, m in zip(predicted, measured, strict=True)]
    return {
        "chains": len(measured),
        "median_error": float(np.median(off)),
        "mean_error": float(off.mean()),
        "right_sign": float((np.sign(predicted.round(6)) == np.sign(measured)).mean()),
        "best_policy": float(np.mean([len(p & m) / len(p) for p, m in named])),
    }


if __name__ == "__main__":
    sys.exit(main())
