"""Fit the model that chooses blocks of elementwise and reduction kernels, or with ``--judge`` judge it.

Judged kernels are those of a family of networks that was left out, with five seeds.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xgboost as xgb

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded
from kit.trees import complete_trees

from costmodel.arrays import FloatArray
from costmodel.files import write_json
from costmodel.integrations.inductor._fused import BlockSizes, FusedKernel, fused_columns, read_fused
from costmodel.integrations.inductor._models import FITTED_BLOCKS, FusedModel

DATASET = Path(__file__).parents[2] / "datasets" / "inductor-sm-budgets"
SEEDS, KEEP = 5, 3
DEPTH, TREES, RATE, POWER = 6, 200, 0.08, 2.0
# Networks whose blocks are alike are left out together.
FAMILIES = {"whisper": "bert", "mixtral": "mixture", "qwen": "llama", "llama": "llama"}
RULES = (
    "ours",
    f"ours, best of {KEEP}",
    "Inductor's first",
    "Inductor's list, timed",
    f"{KEEP} of max-autotune's, timed",
    "max-autotune's, timed",
    "largest block",
)


class Task(NamedTuple):
    """BlockSizes of a kernel on a number of SMs.

    Attributes:
        family: Of the network.
        kernel: The kernel.
        sms: SMs.
        blocks: What was timed.
        origins: Where each comes from, see ``blocks.py``.
        seconds: ``(n,)``.
        X: ``(n, columns)``.
    """

    family: str
    kernel: FusedKernel
    sms: int
    device: str
    blocks: list[BlockSizes]
    origins: list[str]
    seconds: FloatArray
    X: FloatArray


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", type=Path, default=DATASET)
    parser.add_argument("--judge", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parser.parse_args()
    tasks = list(read_tasks(args.dataset))
    if args.judge:
        found = judge(tasks)
        print(table(found))
        if args.json:
            write_json(args.json, rounded(found))
        return
    splits, thresholds, leaves = complete_trees([fit(tasks, 0)], DEPTH, np.float32)
    devices = np.array(sorted({each.device for each in tasks}))
    FusedModel(devices, splits, thresholds, leaves.astype(np.float16)).save(FITTED_BLOCKS)
    print(f"{FITTED_BLOCKS}: {FITTED_BLOCKS.stat().st_size / 1024:.0f} KiB")


def read_tasks(folder: Path) -> Iterator[Task]:
    """Yield what was measured of kernels whose code can be read."""
    sources = pd.read_parquet(folder / "sources.parquet").set_index(["workload", "kind"])
    columns = ["workload", "config", "device", "sms_granted", "outcome", "latencies_s", "visit"]
    rows = pd.read_parquet(folder / "measurements.parquet", columns=columns)
    rows = rows[rows.workload.str.startswith("inductor.fused") & (rows.outcome == "ok")]
    rows = rows.assign(
        config=rows.config.map(json.loads), seconds=rows.latencies_s.str[0], device=rows.device.str["name"]
    )
    rows = rows.assign(kind=rows.config.str["kind"], key=rows.config.map(str))
    for (workload, kind, device, sms), found in rows.groupby(
        ["workload", "kind", "device", "sms_granted"], sort=False
    ):
        source = sources.loc[(workload, kind)]
        kernel = read_fused(source.source)
        if kernel is None:
            continue
        fastest = found.groupby("key", sort=False).agg({"seconds": "min", "config": "first"})
        blocks = [_blocks(kernel, each) for each in fastest.config]
        network = source.network.split("-")[0]
        yield Task(
            FAMILIES.get(network, network), kernel, int(sms), device, blocks,
            [each["origin"] for each in fastest.config], fastest.seconds.to_numpy(np.float64),
            fused_columns(kernel, blocks, int(sms)),
        )  # fmt: skip


def _blocks(kernel: FusedKernel, config: dict[str, Any]) -> BlockSizes:
    r = config.get("R0_BLOCK") or (
        1 << max(0, kernel.r - 1).bit_length() if kernel.kind != "pointwise" else 1
    )
    return BlockSizes(config.get("XBLOCK", 1), config.get("YBLOCK", 1), r, config["warps"])


def fit(tasks: Sequence[Task], seed: int) -> xgb.Booster:
    """Fit trees to the log of seconds over the best of their task; what is near the best counts more."""
    X = np.concatenate([each.X for each in tasks])
    y = np.concatenate([np.log(each.seconds / each.seconds.min()) for each in tasks])
    weights = np.concatenate([(each.seconds.min() / each.seconds) ** POWER for each in tasks])
    settings = {
        "max_depth": DEPTH, "eta": RATE, "subsample": 0.7, "colsample_bynode": 0.6, "min_child_weight": 5.0,
        "lambda": 2.0, "base_score": 0.0, "seed": seed, "nthread": 1, "tree_method": "hist", "max_bin": 128,
    }  # fmt: skip
    return xgb.train(settings, xgb.DMatrix(X.astype(np.float32), label=y, weight=weights), TREES)


def judge(tasks: Sequence[Task]) -> dict[str, Any]:
    """Return best / chosen of each rule by SMs, means over seeds: geometric mean, 10th percentile, spread."""
    scores: dict[tuple[str, int, int], list[float]] = {}
    for seed in range(SEEDS):
        draw = np.random.default_rng(seed)
        for family in sorted({each.family for each in tasks}):
            booster = fit([each for each in tasks if each.family != family], seed)
            for task in (each for each in tasks if each.family == family):
                order = np.argsort(booster.predict(xgb.DMatrix(task.X.astype(np.float32))), kind="stable")
                for rule, chosen in choices(task, order, draw).items():
                    score = task.seconds.min() / task.seconds[chosen].min()
                    scores.setdefault((rule, task.sms, seed), []).append(float(score))
    sms = sorted({each.sms for each in tasks})
    return {
        "kernels": len(tasks) // len(sms),
        "score": {
            rule: {str(n): _summed([scores[rule, n, seed] for seed in range(SEEDS)]) for n in sms}
            for rule in RULES
        },
    }


def choices(task: Task, order: Any, draw: np.random.Generator) -> dict[str, list[int]]:
    """Positions that each rule takes, or times; of max-autotune's list few are drawn, beside the first."""
    first = task.origins.index("first")
    listed = [i for i, each in enumerate(task.origins) if each in ("first", "listed")]
    tuned = [i for i, each in enumerate(task.origins) if each != "drawn"]
    largest = max(range(len(task.blocks)), key=lambda i: (task.blocks[i].elements, task.blocks[i].warps))
    few = [first, *draw.permutation([i for i in tuned if i != first])[: KEEP - 1].tolist()]
    picked = ([order[0]], order[:KEEP].tolist(), [first], listed, few, tuned, [largest])
    return dict(zip(RULES, picked, strict=True))


def _summed(by_seed: Sequence[Sequence[float]]) -> list[float]:
    means = [float(np.exp(np.mean(np.log(each)))) for each in by_seed]
    low = [float(np.quantile(each, 0.1)) for each in by_seed]
    return [float(np.mean(means)), float(np.mean(low)), float(np.ptp(means))]


def table(found: dict[str, Any]) -> str:
    """Markdown of it."""
    sms = [*found["score"][RULES[0]]]
    rows = [
        [rule, *(f"{mean:.2f}; {low:.2f}" for mean, low, _ in by_sms.values())]
        for rule, by_sms in found["score"].items()
    ]
    spread = max(each[2] for each in found["score"]["ours"].values())
    said = f"{found['kernels']} kernels; seeds differ by {spread:.3f} at most"
    return f"{markdown_table(['choice', *sms], rows)}\n\n{said}"


if __name__ == "__main__":
    main()
