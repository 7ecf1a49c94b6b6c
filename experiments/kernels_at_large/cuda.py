"""Choose configs of CUDA kernels whose whole kind was left out, by what was read of their PTX."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from judge import Findings, kinds_left_out, references
from kit.results import rounded
from options import parse_options
from study import Rows

from costmodel.files import write_json

# What each family computes; those of one kind are left out together.
KINDS = {
    "conv2d": "convolution",
    "gemm": "products",
    "histogram": "histogram",
    "matmul": "products",
    "nbody": "n-body",
    "reduction": "reduction",
    "transpose": "transpose",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dataset", help="dataset of CUDA kernels that has facts, which is judged")
    parser.add_argument("--triton", nargs="+", help="datasets of Triton kernels that have facts")
    parser.add_argument("--device", help="name of the GPU")
    parser.add_argument("--seeds", type=int, help="models that are averaged")
    parser.add_argument("--trees", type=int, help="trees of each")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parse_options(parser, __file__, argv)
    cuda = of_kinds(Rows.load(args.dataset, args.device, source="cuda"))
    triton = Rows.both([Rows.load(each, args.device) for each in args.triton])
    both = Rows.both([cuda, triton])
    found = Findings()
    for name, score in references(cuda).items():
        found.add(name, cuda, [score])
    for name, learned_from in (("CUDA", cuda), ("Triton", triton), ("both", both)):
        told = kinds_left_out(learned_from, args.seeds, args.trees, cuda)
        found.add(f"read, learned from {name}", cuda, [told.mean(axis=0)])
        found.add(f"read, learned from {name}, single seeds", cuda, told)
    if args.json:
        write_json(args.json, rounded(found.told))
    print(found.table())


def of_kinds(rows: Rows) -> Rows:
    """Name the kind of each row."""
    kinds = [KINDS[kind.removeprefix("cuda.")] for kind in rows.table["kind"]]
    return Rows(rows.table.assign(kernel_kind=np.array(kinds)), rows.X, rows.y)


if __name__ == "__main__":
    main()
