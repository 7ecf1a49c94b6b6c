"""Train the models of calls that come with the package, with intervals of generations that were left out."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from judge import MEASURED, interval_widths
from kit.results import say
from options import parse_options
from study import OTHER_VENDOR, Rows, add_options, fit_model

from costmodel.transfer._call_latency import SHIPPED, save_call_models


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser)
    parser.add_argument("--out", type=Path, default=SHIPPED, metavar="FILE", help="where they are written")
    args = parse_options(parser, __file__, argv)
    models = {}
    for kind in args.kinds:
        rows = Rows.load(kind, args.each)
        generation = rows.table["generation"].to_numpy(str)
        without = {
            each: fit_model(rows, np.flatnonzero(~np.isin(generation, [each, OTHER_VENDOR])), args.trees)
            for each in sorted(set(generation) - {OTHER_VENDOR})
        }
        model = fit_model(rows, np.flatnonzero(generation != OTHER_VENDOR), args.trees)
        models[kind] = replace(
            model, measured=np.array(MEASURED), widths=interval_widths(rows, without, args.draws)
        )
        say(f"{kind}: {len(rows.table):,} calls, widths {models[kind].widths.round(2).tolist()}")
    save_call_models(models, args.out)
    say(f"{args.out}: {args.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
