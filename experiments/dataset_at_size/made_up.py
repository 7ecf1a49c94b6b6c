"""A table of a made-up kernel in many sizes: all configs of each on eight GPUs, some twice, in no order."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import csv

DEVICES = (
    "Tesla V100-SXM2-32GB",
    "Tesla T4",
    "NVIDIA A100-SXM4-80GB",
    "NVIDIA RTX A4000",
    "NVIDIA GeForce RTX 3090",
    "NVIDIA GeForce RTX 4090",
    "NVIDIA H100 80GB HBM3",
    "AMD Instinct MI250X",
)
BLOCKS, LAYOUTS = (32, 64, 128, 256, 512), ("row", "column")
FAILING = 0.05  # of the configs, on a device
REPEATED = 0.02  # of the rows stand in the file twice
COLUMNS = """
workload = { column = "kernel" }
device = { column = "gpu" }
isolation = "whole"
outcome = { column = "status" }
[parameters]
block = "block"
tile_x = "tile_x"
tile_y = "tile_y"
layout = { column = "layout", type = "text" }
[latency]
columns = ["run_1", "run_2", "run_3"]
unit = "ms"
"""


def write_rows(file: Path, rows: int, tiles: int) -> int:
    """Write at least so many rows, whole sizes of the kernel; how many there are."""
    written = sizes = 0
    with file.open("wb") as out:
        while written < rows:
            table = pa.Table.from_pandas(measured(sizes, tiles), preserve_index=False)
            csv.write_csv(table, out, csv.WriteOptions(include_header=not sizes, quoting_style="none"))
            written += len(table)
            sizes += 1
    return written


def measured(size: int, tiles: int) -> pd.DataFrame:
    """All configs of the kernel in one of its sizes on all devices, in no order."""
    rng = np.random.default_rng(size)
    space = pd.MultiIndex.from_product(
        [DEVICES, BLOCKS, range(1, tiles + 1), range(1, tiles + 1), LAYOUTS],
        names=["gpu", "block", "tile_x", "tile_y", "layout"],
    )
    frame = space.to_frame(index=False)
    frame.insert(0, "kernel", f"suite.kernel-x{1024 + size}")
    effects = [rng.normal(0, 0.5, len(frame[name].unique())) for name in space.names]
    codes = [frame[name].astype("category").cat.codes.to_numpy() for name in space.names]
    log_ms = sum(effect[code] for effect, code in zip(effects, codes, strict=True))
    log_ms = log_ms + rng.normal(0, 0.3, len(frame))
    fails = rng.random(len(frame)) < FAILING
    frame["status"] = np.where(fails, "launch_error", "ok")
    for run in (1, 2, 3):
        run_ms = np.exp(log_ms + rng.normal(0, 0.01, len(frame))).round(6)
        frame[f"run_{run}"] = np.where(fails, np.nan, run_ms)
    return pd.concat([frame, frame.sample(frac=REPEATED, random_state=0)]).sample(frac=1, random_state=1)
