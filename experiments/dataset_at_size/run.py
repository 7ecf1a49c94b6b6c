"""How much time and memory do millions of rows take? See README.md."""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

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
CARD = "\n".join(
    f'{name} = "made up"' for name in ("title", "summary", "method", "limits", "licence", "citation")
)
PANDAS = "import sys, pandas; print(len(pandas.read_csv(sys.argv[1])))"
POLARS = "import sys, polars; print(len(polars.read_csv(sys.argv[1])))"  # where it is installed
SPLIT = ["--strategy", "random", "--name", "fifth"]


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Attributes:
        what: The command in words.
        seconds: Wall time.
        peak_bytes: Most memory that its process had at once.
        rows_per_s: Rows of the file over the wall time.
    """

    what: str
    seconds: float
    peak_bytes: int
    rows_per_s: float


def main() -> None:
    args = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        costs = measure(Path(folder), args.rows, args.tiles)
    print(table(costs))
    if args.json:
        args.json.write_text(json.dumps([asdict(cost) for cost in costs], indent=2) + "\n")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--tiles", type=int, help="a kernel has ten times the square as configs")
    parser.add_argument("--cores", type=int)
    parser.add_argument("--folder", type=Path, help="where to work (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def measure(folder: Path, rows: int, tiles: int) -> list[Cost]:
    """Write a file and run the commands on it, one after the other."""
    file = folder / "runs.csv"
    (folder / "map.toml").write_text(COLUMNS)
    (folder / "card.toml").write_text(CARD)
    rows = write_rows(file, rows, tiles)
    print(f"{rows:,} rows, {file.stat().st_size / 1e6:,.0f} MB", file=sys.stderr, flush=True)
    dataset = [sys.executable, "-m", "costmodel", "dataset"]
    columns, out = ["--columns", str(folder / "map.toml")], folder / "out"
    card = ["--card", str(folder / "card.toml")]
    commands = {
        "pandas.read_csv": [sys.executable, "-c", PANDAS, str(file)],
        "polars.read_csv": [sys.executable, "-c", POLARS, str(file)],
        "dataset validate": [*dataset, "validate", str(file), *columns],
        "dataset build": [*dataset, "build", str(file), *columns, *card, "--out", str(out)],
        "dataset describe": [*dataset, "describe", str(out)],
        "dataset split": [*dataset, "split", str(out), *SPLIT],
        "dataset diff": [*dataset, "diff", str(out), str(out)],
        "dataset export": [*dataset, "export", str(out), "--format", "parquet", "--out", f"{out}.parquet"],
    }
    if find_spec("polars") is None:
        del commands["polars.read_csv"]
    return [run(what, command, rows) for what, command in commands.items()]


def write_rows(file: Path, rows: int, tiles: int) -> int:
    """Write a CSV of kernels measured on several devices, some of it twice; how many rows it has."""
    written = kernel = 0
    while written < rows:
        frame = measured(f"suite.kernel{kernel}-x1024", tiles, np.random.default_rng(kernel))
        frame.to_csv(file, mode="a", header=not kernel, index=False)
        written += len(frame)
        kernel += 1
    return written


def measured(kernel: str, tiles: int, rng: np.random.Generator) -> pd.DataFrame:
    """All configs of a kernel on all devices, in no order."""
    space = pd.MultiIndex.from_product(
        [DEVICES, BLOCKS, range(1, tiles + 1), range(1, tiles + 1), LAYOUTS],
        names=["gpu", "block", "tile_x", "tile_y", "layout"],
    )
    frame = space.to_frame(index=False)
    frame.insert(0, "kernel", kernel)
    effects = [rng.normal(0, 0.5, len(frame[name].unique())) for name in space.names]
    codes = [frame[name].astype("category").cat.codes.to_numpy() for name in space.names]
    log_ms = sum(effect[code] for effect, code in zip(effects, codes, strict=True))
    log_ms = log_ms + rng.normal(0, 0.3, len(frame))
    fails = rng.random(len(frame)) < FAILING
    frame["status"] = np.where(fails, "launch_error", "ok")
    for run_ in (1, 2, 3):
        run_ms = np.exp(log_ms + rng.normal(0, 0.01, len(frame))).round(6)
        frame[f"run_{run_}"] = np.where(fails, np.nan, run_ms)
    return pd.concat([frame, frame.sample(frac=REPEATED, random_state=0)]).sample(frac=1, random_state=1)


def run(what: str, command: Sequence[str], rows: int) -> Cost:
    """Run a command to its end."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        raise RuntimeError(f"{what} failed with {os.waitstatus_to_exitcode(status)}")
    cost = Cost(what, seconds, 1024 * usage.ru_maxrss, rows / seconds)
    print(f"{what}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return cost


def table(costs: Sequence[Cost]) -> str:
    """Markdown: one row a command, and how many times as long as pandas it takes."""
    pandas = next(cost for cost in costs if cost.what.startswith("pandas"))
    lines = ["| | s | rows a second | times pandas | peak memory, MB |", "| --- |" + " ---: |" * 4]
    lines += [
        f"| {c.what} | {c.seconds:.1f} | {c.rows_per_s:,.0f} | {c.seconds / pandas.seconds:.1f} "
        f"| {c.peak_bytes / 1e6:,.0f} |"
        for c in costs
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
