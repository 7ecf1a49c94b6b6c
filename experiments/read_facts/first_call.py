"""What does reading the configs of a first call take, when nothing was read before, and when all was?"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from run import core_s

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, rounded
from options import parse_options

from costmodel.files import write_json
from costmodel.kernels.triton._read_cache import ReadCache
from costmodel.kernels.triton._read_many import ManyReader
from costmodel.kernels.triton._source import TritonSource
from costmodel.kernels.triton.proposing._open_family import bind_candidate
from costmodel.records import find_device
from costmodel.records._platform import part_of
from costmodel.transfer._read_ranker import shipped_ranker

_TIMEOUT_S = 120.0  # on a busy machine


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", help="families of the package")
    parser.add_argument("--configs", type=int, help="configs of each, drawn at random")
    parser.add_argument("--workers", type=int, help="processes that read side by side")
    parser.add_argument("--device", help="name of the GPU")
    parser.add_argument("--repeats", type=int, help="of each, of which the median is taken")
    parser.add_argument("--json", type=Path, metavar="FILE")
    args = parse_options(parser, __file__, argv)
    told = {name: first_calls(name, args) for name in args.families}
    header = ["family", *next(iter(told.values()))]
    print(markdown_table(header, [[name, *rounded(list(each.values()), 3)] for name, each in told.items()]))
    if args.json:
        write_json(args.json, rounded(told))


def first_calls(name: str, args: argparse.Namespace) -> dict[str, float]:
    """Seconds of one family: of cores and by the clock, without what was read before, and with it."""
    source = TritonSource()
    family = next(each for each in source.families if each.name == name)
    platform = part_of(find_device(args.device))
    space, rng = family.space(), np.random.default_rng(0)
    candidates = [space.candidate(space.sample(rng)) for _ in range(args.configs)]

    def call(folder: str) -> None:
        reader = ManyReader(ReadCache(Path(folder)), args.workers, _TIMEOUT_S)
        bound = [bind_candidate(family, each, platform.device.architecture) for each in candidates]
        readings = reader.read(bound)
        if any(each.note for each in readings):
            raise RuntimeError(f"Every config must be read, but: {[each.note for each in readings]}")
        shipped_ranker().predict([each.facts for each in readings], platform)

    with TemporaryDirectory() as warm:
        call(warm)
        cached = [spent(call, warm) for _ in range(args.repeats)]
    uncached = []
    for _ in range(args.repeats):
        with TemporaryDirectory() as folder:
            uncached.append(spent(call, folder))
    (new_core_s, new_s), (core, clock) = np.median(uncached, axis=0), np.median(cached, axis=0)
    return {"new: core s": new_core_s, "new: s": new_s, "known: core s": core, "known: s": clock}


def spent(call: Callable[..., Any], *given: Any) -> tuple[float, float]:
    """Seconds of cores, and by the clock."""
    start, cores = time.perf_counter(), core_s()
    call(*given)
    return core_s() - cores, time.perf_counter() - start


if __name__ == "__main__":
    main()
