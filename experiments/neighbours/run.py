"""How far is what is said of kernels beside each other from what was measured? See README.md here."""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from costmodel.files import write_json
from costmodel.planner.neighbours import SharedMemory
from costmodel.records import Device

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Measured:
    """Pairs of kernels; arrays are ``(pairs, 2)``, left and right, unless said otherwise.

    Attributes:
        device: What they ran on.
        kernels: Names.
        sms: SMs of their partitions.
        alone_s: What they take alone on these.
        slowdowns: What they take beside each other over that.
        whole_s: What they take alone on the whole device.
        sizes_bytes: What they read and write, each byte once.
        again: ``(repeated, 2, 2)`` slowdowns of pairs that were measured twice: visit, side.
    """

    device: Device
    kernels: NDArray[Any]
    sms: NDArray[Any]
    alone_s: Array
    slowdowns: Array
    whole_s: Array
    sizes_bytes: NDArray[Any]
    again: Array


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


def read(folder: Path) -> Measured:
    """What was measured of pairs whose kernels ran on the whole device, too."""
    about, *_ = lines(folder / "about.jsonl")
    sizes = {row["kernel"]: moved_bytes(row) for row in lines(folder / "kernels.jsonl")}
    whole: dict[str, list[float]] = {}
    for row in lines(folder / "whole.jsonl"):
        whole.setdefault(row["kernel"], []).extend(row["latency_s"])
    pairs = [row for row in lines(folder / "pairs.jsonl") if set(row["kernels"]) <= set(whole)]
    first = {key(row): row for row in pairs if row["visit"] == 0}
    rows = list(first.values())
    twice = [
        [slowdowns(first[key(row)]), slowdowns(row)] for row in pairs if row["visit"] and key(row) in first
    ]
    names = np.array([row["kernels"] for row in rows])
    return Measured(
        msgspec.convert(about["device"], Device),
        names,
        np.array([row["sms"] for row in rows]),
        np.array([np.median(row["alone_s"], axis=1) for row in rows]),
        np.array([slowdowns(row) for row in rows]),
        np.vectorize(lambda name: np.median(whole[name]))(names),
        np.vectorize(sizes.__getitem__)(names),
        np.array(twice).reshape(-1, 2, 2),
    )


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return *row["kernels"], *row["sms"]


def slowdowns(row: Mapping[str, Any]) -> Array:
    """``(2,)`` what each takes beside the other over what it takes alone, by medians of the rounds."""
    return np.asarray(np.median(row["beside_s"], axis=1) / np.median(row["alone_s"], axis=1))


def moved_bytes(kernel: Mapping[str, Any]) -> int:
    """What a kernel reads and writes, each byte once: of a table no more than what it looks up."""
    launches = kernel["candidate"].get("launches", ())
    of_data = sum(launch.get("device_bytes", 0) for launch in launches)
    of_threads = sum(
        launch.get("global_load_bytes", 0) + launch.get("global_store_bytes", 0) for launch in launches
    )
    arguments = int(kernel["argument_bytes"])
    return min(arguments, of_data or of_threads or arguments)


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
