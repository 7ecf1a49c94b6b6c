"""Train the ranker that comes with the package, on all kernels that were read."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say
from options import parse_options
from study import Rows, boost, ranker_of

from costmodel.transfer._read_ranker import SHIPPED


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--datasets", nargs="+", help="datasets of Triton's kernels that have facts")
    parser.add_argument("--device", help="name of the GPU")
    parser.add_argument("--seeds", type=int, help="models that are averaged")
    parser.add_argument("--trees", type=int, help="trees of each")
    parser.add_argument(
        "--out", type=Path, default=SHIPPED, metavar="FILE", help="where the ranker is written"
    )
    args = parse_options(parser, __file__, argv)
    rows = Rows.both([Rows.load(dataset, args.device) for dataset in args.datasets])
    ranker = ranker_of(boost(rows, np.arange(len(rows.table)), args.seeds, args.trees))
    ranker.save(args.out)
    say(f"{args.out}: {len(ranker.splits)} trees, {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
