"""How much time and memory do millions of rows take? See README.md."""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from itertools import cycle
from pathlib import Path

sys.path.append(str(Path(__file__).parent))
sys.path.append(str(Path(__file__).parents[1]))
from made_up import COLUMNS, write_rows
from options import parse_options

CARD = "\n".join(
    f'{name} = "made up"' for name in ("title", "summary", "method", "limits", "licence", "citation")
)
READ = "import sys, {0}; print(len({0}.read_csv(sys.argv[1])))"
DATASET = [sys.executable, "-m", "costmodel", "dataset"]
EVALUATE = [sys.executable, "-m", "costmodel", "evaluate"]


@dataclass(frozen=True)
class Goal:
    """What a step may take.

    Attributes:
        rows: At how many rows.
        seconds: Wall time.
        peak_bytes: Memory.
    """

    rows: int
    seconds: float
    peak_bytes: float


GOALS = {
    "dataset validate": (Goal(5_000_000, 30, 3e9),),
    "dataset build": (Goal(5_000_000, 60, 3e9), Goal(20_000_000, 300, 4e9)),
    "dataset split": (Goal(5_000_000, 60, 3e9),),
    "dataset diff": (Goal(5_000_000, 60, 3e9),),
    "dataset export": (Goal(5_000_000, 60, 3e9),),
    "evaluate consensus": (Goal(5_000_000, 600, 8e9),),
    "evaluate xgboost": (Goal(5_000_000, 600, 8e9),),
}


@dataclass(frozen=True)
class Cost:
    """What a command took.

    Attributes:
        what: The command in words.
        size: How many rows were asked for.
        rows: How many the file has.
        seconds: Wall time.
        peak_bytes: Most memory that its process had at once.
    """

    what: str
    size: int
    rows: int
    seconds: float
    peak_bytes: int


def main() -> None:
    args = parse()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: args.cores])
    costs = [] if args.again else read(args.json)
    for size in sorted(args.rows):
        folder = args.folder / f"{size}"
        for cost in measure(folder, size, args, {cost.what for cost in costs if cost.size == size}):
            costs.append(cost)
            args.json.parent.mkdir(parents=True, exist_ok=True)
            args.json.write_text(json.dumps([asdict(each) for each in costs], indent=2) + "\n")
        shutil.rmtree(folder, ignore_errors=True)
    print(table(costs))
    if args.plot:
        plot(costs, args.plot)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", help="sizes to measure")
    parser.add_argument("--whole", type=int, help="up to so many rows all commands, beyond only some")
    parser.add_argument("--evaluated", type=int, help="up to so many rows learners are judged, too")
    parser.add_argument("--tiles", type=int, help="a kernel has ten times the square as configs")
    parser.add_argument("--cores", type=int)
    parser.add_argument("--folder", type=Path, help="where to work")
    parser.add_argument("--json", type=Path, metavar="FILE", help="what was measured, which is kept")
    parser.add_argument("--plot", type=Path, metavar="FILE.png", help="draw time over rows")
    parser.add_argument("--again", action="store_true", help="measure anew what FILE has")
    return parse_options(parser, __file__, argv)


def read(file: Path) -> list[Cost]:
    """What was measured before."""
    return [Cost(**each) for each in json.loads(file.read_text())] if file.is_file() else []


def measure(folder: Path, size: int, args: argparse.Namespace, done: set[str]) -> Iterator[Cost]:
    """Run what is not done yet on a file of a size, one command after the other."""
    commands = steps(folder, size, args)
    if done >= commands.keys():
        return
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "map.toml").write_text(COLUMNS)
    (folder / "card.toml").write_text(CARD)
    rows = write_rows(folder / "runs.csv", size, args.tiles)
    print(f"{rows:,} rows, {(folder / 'runs.csv').stat().st_size / 1e6:,.0f} MB", file=sys.stderr, flush=True)
    if "dataset build" in done and not (folder / "built").exists():
        run("dataset build", commands["dataset build"], size, rows)  # whose result others need
    for what, command in commands.items():
        if what not in done:
            yield run(what, command, size, rows)


def steps(folder: Path, size: int, args: argparse.Namespace) -> dict[str, list[str]]:
    """The commands for a size."""
    file, out, split = str(folder / "runs.csv"), str(folder / "built"), str(folder / "exported.parquet")
    columns, card = ["--columns", str(folder / "map.toml")], ["--card", str(folder / "card.toml")]
    commands = {
        "pandas.read_csv": [sys.executable, "-c", READ.format("pandas"), file],
        "polars.read_csv": [sys.executable, "-c", READ.format("polars"), file],
        "dataset validate": [*DATASET, "validate", file, *columns],
        "dataset build": [*DATASET, "build", file, *columns, *card, "--out", out],
    }
    if size <= args.whole:
        fifth = ["--strategy", "random", "--name", "fifth", "--force"]
        commands |= {
            "dataset describe": [*DATASET, "describe", out],
            "dataset split": [*DATASET, "split", out, *fifth],
            "dataset diff": [*DATASET, "diff", out, out],
            "dataset export": [*DATASET, "export", out, "--format", "parquet", "--out", split],
        }
    if size <= args.evaluated:
        devices = ["--split", "leave-one-device-out", "--folds", "2"]
        for learner in ("consensus", "xgboost"):
            commands[f"evaluate {learner}"] = [*EVALUATE, out, *devices, "--learner", learner]
    if find_spec("polars") is None:
        del commands["polars.read_csv"]
    return commands


def run(what: str, command: Sequence[str], size: int, rows: int) -> Cost:
    """Run a command to its end."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - start
    if status:
        raise RuntimeError(f"{what} of {rows:,} rows failed with {os.waitstatus_to_exitcode(status)}")
    print(f"{what}: {seconds:.0f} s", file=sys.stderr, flush=True)
    return Cost(what, size, rows, seconds, 1024 * usage.ru_maxrss)


def table(costs: Sequence[Cost]) -> str:
    """Markdown: one row a command and size, beside pandas and the goal where there is one."""
    lines = [
        "| | rows | s | goal, s | rows a second | times pandas | peak memory, MB | goal, MB |",
        "| --- |" + " ---: |" * 7,
    ]
    pandas_s = {cost.size: cost.seconds for cost in costs if cost.what.startswith("pandas")}
    for c in sorted(costs, key=lambda cost: cost.size):
        goal = next((goal for goal in GOALS.get(c.what, ()) if goal.rows == c.size), None)
        most_s, most_mb = ("", "") if goal is None else (f"{goal.seconds:g}", f"{goal.peak_bytes / 1e6:,.0f}")
        lines.append(
            f"| {c.what} | {c.rows:,} | {c.seconds:.1f} | {most_s} "
            f"| {c.rows / c.seconds:,.0f} | {c.seconds / pandas_s[c.size]:.1f} | {c.peak_bytes / 1e6:,.0f} "
            f"| {most_mb} |"
        )
    return "\n".join(lines)


def plot(costs: Sequence[Cost], file: Path) -> None:
    """Time over rows, each command a line; where one is as steep as the dotted ones, cost is linear."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    commands = dict.fromkeys(cost.what for cost in costs)
    for what, marker in zip(commands, cycle("osD^vPX*<>"), strict=False):  # told apart in grey, too
        points = sorted((cost.rows, cost.seconds) for cost in costs if cost.what == what)
        axes.plot(*zip(*points, strict=True), marker=marker, label=what)
    for per_row in (1e-6, 1e-5):
        axes.axline((1e5, 1e5 * per_row), (1e6, 1e6 * per_row), color="grey", linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="rows", ylabel="seconds", title="Dotted: linear in the rows")
    axes.legend(frameon=False, fontsize="small")
    figure.savefig(file, dpi=150, metadata={"Software": None})


if __name__ == "__main__":
    main()
