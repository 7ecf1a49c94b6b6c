"""Choose configs of CUDA kernels whose whole kind was left out, by what was read of their PTX."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

sys.path.append(str(Path(__file__).parents[1]))
from judge import TIME, Findings, kinds_left_out, references, scores
from kit.results import rounded
from options import parse_options
from study import Rows, boost

from costmodel.arrays import FloatArray
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
    everything = np.arange(len(cuda.table))
    for title, rest in (("", lambda rows: rows), (", on top of the analytic time", beyond_time)):
        of_cuda, of_triton, of_both = map(rest, (cuda, triton, both))
        boosters = boost(of_triton, np.arange(len(triton.table)), args.seeds, args.trees)
        told = {
            "other CUDA kernels": kinds_left_out(of_cuda, args.seeds, args.trees),
            "Triton kernels": scores(cuda, boosters, everything),
            "both": kinds_left_out(of_both, args.seeds, args.trees, cuda),
        }
        known = -log_time(cuda) if title else 0.0
        for name, score in told.items():
            found.add(f"learned from {name}{title}", cuda, [score.mean(axis=0) + known])
    if args.json:
        write_json(args.json, rounded(found.told))
    print(found.table())


def log_time(rows: Rows) -> FloatArray:
    """``(n,)`` log of the analytic time less its mean over the task."""
    return np.log(2.0) * rows.X[:, TIME].astype(np.float64)


def beyond_time(rows: Rows) -> Rows:
    """The same rows, of which only what the analytic time leaves is to be learned."""
    return Rows(rows.table, rows.X, rows.y - log_time(rows))


def of_kinds(rows: Rows) -> Rows:
    """Name the kind of each row."""
    kinds = [KINDS[kind.removeprefix("cuda.")] for kind in rows.table["kind"]]
    return Rows(rows.table.assign(kernel_kind=np.array(kinds)), rows.X, rows.y)


if __name__ == "__main__":
    main()
