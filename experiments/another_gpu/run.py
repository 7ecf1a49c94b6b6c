"""What a kernel takes on another GPU, or on other SMs, from what it takes here: see README.md here."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import track

from costmodel.files import write_json

sys.path.append(str(Path(__file__).parents[1]))
import larger_device
import parts_of_a_gpu
import public_gpus
from judged import Shots
from kit.results import markdown_table
from options import parse_options
from recorded import budgets, caches

CACHES = ("hub/convolution_milo", "hub/dedispersion_milo", "single-team/convolution", "single-team/gemm")


def main() -> None:
    args = parse()
    shots = Shots(args.shots, args.draws)
    data = [budgets(name, args.kernels) for name in args.datasets]
    ours: list[dict[str, Any]] = [parts_of_a_gpu.shipped(data)]
    for each in track(data, "datasets", disable=not sys.stderr.isatty()):
        others = [other for other in data if other is not each]
        ours += parts_of_a_gpu.judge(each, others, args.learners, shots)
    theirs: list[dict[str, Any]] = []
    if args.caches:
        every = [caches(args.caches / name, args.configs) for name in CACHES]
        theirs = list(public_gpus.judge(every, args.public_learners, shots))
    larger = list(larger_device.judge("h100-sm-budgets", args.larger_learner)) if args.larger_learner else []
    if args.json:
        result = {"parts_of_a_gpu": ours, "public_gpus": theirs, "larger_device": larger}
        write_json(args.json, result)
    print(shown(ours, theirs, larger))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--caches", type=Path, metavar="FOLDER", help="Kernel Tuner's caches, for the public GPUs"
    )
    parser.add_argument("--datasets", nargs="+", help="what was measured on parts of an H100 and an H200")
    parser.add_argument("--learners", nargs="*", help="learners to compare with")
    parser.add_argument("--public-learners", nargs="*", help="those on the public GPUs")
    parser.add_argument("--larger-learner", help="what is asked for a larger device; none if empty")
    parser.add_argument("--kernels", type=int, help="most kernels of a workload")
    parser.add_argument("--configs", type=int, help="most configs of a public kernel")
    parser.add_argument("--shots", type=int, help="measurements on the new hardware")
    parser.add_argument("--draws", type=int, help="random choices of these")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parse_options(parser, __file__, argv)


def shown(
    ours: Sequence[dict[str, Any]], theirs: Sequence[dict[str, Any]], larger: Sequence[dict[str, Any]]
) -> str:
    """Tables in Markdown: ways by moves; then ways by kinds of pairs of GPUs, medians over pairs."""
    parts = [f"{row['dataset']}: {row['settings']}, {row['spread']}" for row in ours if "settings" in row]
    table = pd.DataFrame([row for row in ours if "way" in row])
    for name, rows in table.groupby("dataset", sort=False):
        parts += ["", f"### {name}", "", _markdown(rows, "move", _cell)]
    if theirs:
        table = pd.DataFrame(theirs)
        table = pd.concat([table, public_gpus.by_the_nearest(table)])
        medians = table.groupby(["pair", "way"], sort=False, as_index=False).agg(
            median_error=("median_error", "median"), p90_error=("p90_error", "median"),
            coverage=("coverage", "mean"), rows=("way", "size"),
        )  # fmt: skip
        parts += ["", "### public GPUs", "", _markdown(medians, "pair", _cell)]
    parts += ["", "### a device of 64 SMs made larger", ""]
    parts += [f"{row['sms']} SMs: {_cell(pd.Series(row))}" for row in larger]
    return "\n".join(parts)


def _cell(row: pd.Series) -> str:
    covered = "" if pd.isna(row["coverage"]) else f" [{row['coverage']:.0%}]"
    return f"{row['median_error']:.1%}, {row['p90_error']:.0%}{covered}"


def _markdown(rows: pd.DataFrame, column: str, cell: Any) -> str:
    text = rows.assign(cell=rows.apply(cell, axis=1)).pivot(index="way", columns=column, values="cell")
    text = text.loc[rows["way"].drop_duplicates(), rows[column].drop_duplicates()].fillna("")
    return markdown_table(["", *text.columns], text.reset_index().to_numpy().tolist())


if __name__ == "__main__":
    main()
