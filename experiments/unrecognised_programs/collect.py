"""Kernels of unrecognised programs: drawn on any machine, measured on a GPU. See README.md here."""

import argparse
import sys
import time
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

import msgspec
from programs import PROGRAMS

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector.runners._base import Request
from costmodel.kernels._design_space import sample
from costmodel.kernels.metaschedule.programs._source import ProgramSource
from costmodel.records import Candidate, RecordStore

Drawn = dict[str, list[Candidate]]  # candidates by name of the program

_RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}
_TOGETHER = 8  # kernels that are timed side by side


def main() -> None:
    args = parse()
    if args.draw:
        args.candidates.write_bytes(msgspec.json.encode(draw(args.program or list(PROGRAMS), args)))
        return
    drawn = msgspec.json.decode(args.candidates.read_bytes(), type=Drawn)
    chosen = {name: kernels for name, kernels in drawn.items() if name in (args.program or drawn)}
    collect(chosen, args)


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--candidates", type=Path, required=True, metavar="FILE", help="JSON, by program")
    parser.add_argument("--draw", action="store_true", help="draw candidates into the file; needs no GPU")
    parser.add_argument("--count", type=int, default=64, help="of each program, to draw")
    parser.add_argument("--out", type=Path, metavar="FILE", help=".jsonl of what was measured")
    parser.add_argument("--program", action="append", choices=PROGRAMS, help="again for more (default: all)")
    parser.add_argument("--runner", choices=_RUNNERS, default="cuda")
    parser.add_argument("--sms", type=int, action="append", help="again for more (default: 8, 32 and 132)")
    parser.add_argument("--time-limit", type=float, default=230.0, help="s after which it ends")
    return parser.parse_args(argv)


def draw(names: Sequence[str], args: argparse.Namespace) -> Drawn:
    """Random valid kernels of each program, all different."""
    found = {}
    for name in names:
        source = ProgramSource.of(PROGRAMS[name]())
        found[name] = sample(source.space(source.workloads[0], args.runner), args.count, seed=0)
        print(f"{name}: {len(found[name])} kernels", file=sys.stderr, flush=True)
    return found


def collect(drawn: Drawn, args: argparse.Namespace) -> None:
    """Measure the candidates, all programs equally far, and then all once more."""
    end = time.monotonic() + args.time_limit
    source = ProgramSource.of(*(PROGRAMS[name]() for name in drawn))
    groups = in_turns(list(drawn.values()))
    with RecordStore(args.out) as store, _RUNNERS[args.runner](sources=(source,)) as runner:
        platforms = [runner.platform(sms) for sms in args.sms or (8, 32, 132)]
        jobs = [
            runner.submit([Request(kernel, platform, visit) for platform in platforms for kernel in group])
            for visit in (0, 1)
            for group in groups
        ]
        for job in jobs:
            try:
                store.append(job.result(timeout=max(0.0, end - time.monotonic())))
            except TimeoutError:
                print("The time is up.", file=sys.stderr)
                break


def in_turns(kernels: Sequence[Sequence[Candidate]]) -> list[Sequence[Candidate]]:
    """Groups that are timed together, of one program each, by turns."""
    groups = [[own[i : i + _TOGETHER] for i in range(0, len(own), _TOGETHER)] for own in kernels]
    return [group for turn in zip_longest(*groups) for group in turn if group]


if __name__ == "__main__":
    main()
