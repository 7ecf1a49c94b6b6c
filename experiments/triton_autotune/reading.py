"""What reading 40 configs costs before a first call, with nothing kept and with all kept; needs no GPU."""

import argparse
import resource
import tempfile
import time
from functools import partial
from pathlib import Path

from cases import CASES

from costmodel.integrations.triton._reading import ReadRequest, read_configs
from costmodel.records import find_device
from costmodel.records._platform import part_of
from costmodel.threads import cpu_threads
from costmodel.transfer._read_ranker import shipped_ranker


def main() -> None:
    """Print seconds, of the clock and of processors here and in the workers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kernel", choices=CASES, default="matmul")
    parser.add_argument("--configs", type=int, default=40)
    args = parser.parse_args()
    case, platform = CASES[args.kernel], part_of(find_device("NVIDIA H100 80GB HBM3"), 32)
    told = dict(zip(case.kernel.arg_names, case.operands(case.shapes[0], "cpu"), strict=False))
    configs = case.configs(args.configs)
    classes = len({tuple(sorted(each.kwargs.items())) for each in configs})
    print(f"{args.kernel}: {len(configs)} configs, {classes} for Triton's front end, {cpu_threads()} threads")
    with tempfile.TemporaryDirectory() as folder:
        for kept in ("nothing kept", "all kept", "all kept"):
            request = ReadRequest(case.kernel, told, partial(case.grid, case.shapes[0]), "sm_90")
            start, used = time.perf_counter(), processor_s()
            readings = read_configs(
                request, configs, workers=cpu_threads(), timeout_s=300, cache=Path(folder)
            )
            shipped_ranker().predict([None if each.note else each.facts for each in readings], platform)
            here, workers = (b - a for a, b in zip(used, processor_s(), strict=True))
            took = time.perf_counter() - start
            print(f"{kept}: {took:.3f} s; processors {here:.3f} s here, {workers:.3f} s in workers")


def processor_s() -> tuple[float, float]:
    """Seconds of processors of this process, and of those that it waited for."""
    here, others = (resource.getrusage(each) for each in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return here.ru_utime + here.ru_stime, others.ru_utime + others.ru_stime


if __name__ == "__main__":
    main()
