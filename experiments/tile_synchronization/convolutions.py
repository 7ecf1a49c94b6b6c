"""Savings of synchronised tiles of two convolutions, predicted from other layers. See README.md."""

import argparse
import csv
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from math import ceil, prod
from pathlib import Path

import numpy as np
from cases import SMS, Launch

from costmodel.arrays import FloatArray
from costmodel.files import write_json
from costmodel.planner import MeasuredSaving, Overheads, SavingLaw, TiledKernel, predict_saving
from costmodel.planner._tile_schedule import Saving

GPU = "v100"
POLICIES = ("row", "tile")
STAGES = 2  # of a pipeline without asynchronous copies
TIE = 1.0  # points within which policies are alike, in predictions and in measurements
# Microseconds that are assumed: the gap in a stream, and what of a block does not go with its work.
GAP_US, FIXED_US = 8.0, 8.0


@dataclass(frozen=True)
class Pair:
    """Two equal 3x3 convolutions, one after the other; times in microseconds.

    Attributes:
        batch: Images.
        channels: Of both.
        side: Height and width.
        launch: Of both, without synchronisation.
        baseline_us: Both in a stream.
        launched: With each policy.
        ordered: Whether blocks took their tiles from a list, by policy.
        saved: ``(2,)`` points that row and tile saved.
    """

    batch: int
    channels: int
    side: int
    launch: Launch
    baseline_us: float
    launched: tuple[Launch, ...]
    ordered: tuple[bool, ...]
    saved: tuple[float, ...]

    def grid(self, launch: Launch) -> tuple[int, int, int]:
        """Tiles of the implicit product."""
        return launch.grid(self.batch * self.side**2, self.channels)


def read_pairs(folder: Path) -> list[Pair]:
    """Read the table of ResNet-38."""
    with (folder / "conv-resnet38-v100.csv").open() as file:
        rows = list(csv.DictReader(file))
    found = []
    for first, *rest in ([row for row in rows if key(row) == each] for each in dict.fromkeys(map(key, rows))):
        both = sorted([first, *rest], key=lambda row: POLICIES.index(row["policy"]))
        sizes = [int(first[name]) for name in ("tile_m", "tile_n", "tile_k", "warp_m", "warp_n")]
        launch = Launch(*sizes, STAGES, int(first["baseline_split_k"]))
        found.append(
            Pair(
                *key(first),
                launch,
                float(first["baseline_us"]),
                tuple(replace(launch, splits=int(row["policy_split_k"])) for row in both),
                tuple(row["custom_order"] == "1" for row in both),
                tuple(float(row["saving_percent"]) for row in both),
            )
        )
    return found


def key(row: dict[str, str]) -> tuple[int, int, int]:
    return int(row["batch"]), int(row["channels"]), int(row["height_width"])


@cache
def simulated(
    pair: Pair, place: int, gap_us: float = GAP_US, block_us: float = 0.0, wait_us: float = 0.0
) -> Saving:
    """Simulate what a policy saves.

    A block's work takes as many times longer as its SM holds blocks, which below one wave are fewer than it
    could hold: so splits of the reduction that add blocks do not make the kernel as much faster.
    """
    sms, launch = SMS[GPU], pair.launched[place]
    slots = launch.blocks_per_sm(GPU)
    held = [min(slots, ceil(prod(pair.grid(each)) / sms)) for each in (pair.launch, launch)]
    alone_us = (pair.baseline_us - gap_us) / 2
    tile_us = TiledKernel.from_duration(pair.grid(pair.launch), slots, sms, alone_us).tile_s
    fixed_us = min(FIXED_US, tile_us / 2)
    work_us = (tile_us - fixed_us) / held[0] * pair.launch.splits / launch.splits
    kernel = TiledKernel(pair.grid(launch), slots, fixed_us + work_us * held[1])
    overheads = Overheads(gap_us, block_us if pair.ordered[place] else 0.0, wait_us)
    found = predict_saving(kernel, kernel, sms, POLICIES[place], overheads)
    return replace(found, stream_s=pair.baseline_us)


def learn(pairs: Sequence[Pair]) -> SavingLaw:
    """What other layers saved."""
    return SavingLaw.fit(
        [
            MeasuredSaving(policy, simulated(pair, place), pair.saved[place] / 100)
            for pair in pairs
            for place, policy in enumerate(POLICIES)
        ]
    )


def by_law(pair: Pair, law: SavingLaw) -> list[float]:
    """Points that row and tile should save."""
    return [100 * law.saving(simulated(pair, place), policy) for place, policy in enumerate(POLICIES)]


def of_products(pair: Pair) -> list[float]:
    """Points by constants of products: means of what `run.py` fits to the two tables of this GPU."""
    return [100 * simulated(pair, place, gap_us=2.5, block_us=10.0, wait_us=1.1).saving for place in range(2)]


def best_policies(saved: Sequence[float]) -> set[str]:
    """Policies within a tie of the best; the stream saves nothing."""
    savings = {"stream": 0.0, **dict(zip(POLICIES, saved, strict=True))}
    most = max(savings.values())
    return {name for name, saving in savings.items() if saving >= most - TIE}


def scores(predicted: FloatArray, measured: FloatArray) -> dict[str, float]:
    """Errors in points, right signs, and how much of the named policies are best."""
    off = np.abs(predicted - measured)
    named = [(best_policies(p), best_policies(m)) for p, m in zip(predicted, measured, strict=True)]
    return {
        "median_error": float(np.median(off)),
        "mean_error": float(off.mean()),
        "right_sign": float((np.sign(predicted.round(6)) == np.sign(measured)).mean()),
        "best_policy": float(np.mean([len(p & m) / len(p) for p, m in named])),
    }


def main() -> None:
    """Print and write the scores of each way, on all pairs and on those whose splits a policy left alone."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path, help="folder with cuSync's table conv-resnet38-v100.csv")
    parser.add_argument("--json", type=Path, help="where to write the numbers")
    args = parser.parse_args()
    pairs = read_pairs(args.data)
    layers = sorted({pair.channels for pair in pairs})
    laws = {layer: learn([pair for pair in pairs if pair.channels != layer]) for layer in layers}
    ways: dict[str, Callable[[Pair], list[float]]] = {
        "learned from the other three layers": lambda pair: by_law(pair, laws[pair.channels]),
        "constants of products of the same GPU": of_products,
        "the simulation, synchronisation costs nothing": lambda pair: by_law(pair, SavingLaw()),
    }
    measured = np.array([pair.saved for pair in pairs])
    alike = np.array([{each.splits for each in pair.launched} == {pair.launch.splits} for pair in pairs])
    result: dict[str, object] = {"laws": {str(layer): asdict(law) for layer, law in laws.items()}}
    for name, way in ways.items():
        predicted = np.array([way(pair) for pair in pairs])
        result[name] = {
            "all": scores(predicted, measured),
            "same splits": scores(predicted[alike], measured[alike]),
        }
        for rows, found in (("all", len(pairs)), ("same splits", int(alike.sum()))):
            print(f"{name}, {rows} ({found} pairs): {result[name][rows]}")  # type: ignore[index]
    if args.json:
        write_json(args.json, result)


if __name__ == "__main__":
    sys.exit(main())
