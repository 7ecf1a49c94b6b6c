"""How long does what a process loads of costmodel take, beside importing Triton? See README.md here."""

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

GUEST = "import torch, triton"
# What is timed, and what the process has imported before.
ENTRIES = {
    "triton": ("import triton", "import torch"),
    "drop-in for triton.autotune": ("from costmodel.integrations.triton import autotune", GUEST),
    "load_dispatch_table": ("from costmodel import load_dispatch_table", "import numpy"),
    "load_model": ("from costmodel import load_model", "import numpy"),
    "load_dataset": ("from costmodel import load_dataset", "import numpy, pandas, pyarrow.parquet"),
    "tune": ("from costmodel import tune", "import numpy, pandas, pyarrow.parquet, optuna"),
}
_CODE = """
import json, sys, time
{before}
start = time.perf_counter()
{statement}
seconds = time.perf_counter() - start
own = [name for name in sys.modules if name.split(".")[0] == "costmodel"]
print(json.dumps([seconds, len(own)]))
"""


def main(argv: Sequence[str] | None = None) -> None:
    """Time each entry in fresh interpreters, in turn, so that a busy machine hits all of them."""
    args = parse(argv)
    seconds: dict[str, list[float]] = {name: [] for name in ENTRIES}
    modules: dict[str, int] = {}
    for _ in range(args.repeats):
        for name, (statement, before) in ENTRIES.items():
            taken, modules[name] = run_once(statement, before)
            seconds[name].append(taken)
    peer = statistics.median(seconds["triton"])
    rows = [
        {
            "entry": name,
            "modules": modules[name],
            "seconds": statistics.median(taken),
            "of_triton": statistics.median(taken) / peer,
        }
        for name, taken in seconds.items()
    ]
    for row in rows:
        shown = f"{row['seconds']:.3f} s {row['of_triton']:.2f} x triton"
        print(f"{row['entry']:30} {row['modules']:4} modules {shown}")
    if args.json:
        write_json(args.json, {"repeats": args.repeats, "rows": rows})


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options; ``config.toml`` has their defaults."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, help="interpreters for each entry")
    parser.add_argument("--json", type=Path, help="file to write")
    return parse_options(parser, __file__, argv)


def run_once(statement: str, before: str) -> tuple[float, int]:
    """Return the seconds of a statement in a fresh interpreter, and how many modules of ours it has then."""
    code = _CODE.format(before=before, statement=statement)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, count = json.loads(done.stdout)
    return seconds, count


if __name__ == "__main__":
    main()
