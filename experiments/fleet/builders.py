"""What it takes until builders of a pool have built, spawned and forked: see README.md here."""

import argparse
import multiprocessing
import multiprocessing.forkserver
import pickle
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from costmodel.collector import LocalEngine
from costmodel.collector._build import build_once
from costmodel.files import write_json
from costmodel.kernels import sample_candidates
from costmodel.kernels._sources import SOURCES
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Workload
from costmodel.service._builder_pool import run_call
from costmodel.service._building import _open_builders

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import say

WORKLOAD, ARCHITECTURE, SEED = "matmul-m64-n64-k64", "sm_90", 0


def main() -> None:
    """Build the same kernels by both, in turns, each time by new processes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--builders", type=int, default=8)
    parser.add_argument("--kernels", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    # Each pool is that of a new process, so that its processor seconds can be told apart.
    spawn = multiprocessing.get_context("spawn")
    found: dict[str, list[Any]] = {"spawned": [], "forked": []}
    for _ in range(args.repeats):
        for how, rows in found.items():
            ours, theirs = spawn.Pipe()
            process = spawn.Process(target=build, args=(theirs, how, args.builders, args.kernels))
            process.start()
            rows.append(ours.recv())
            process.join()
            say(f"{how}: {rows[-1]}")
    medians = {
        how: {name: round(statistics.median(row[name] for row in rows), 2) for name in rows[0]}
        for how, rows in found.items()
    }
    write_json(
        args.json, {"builders": args.builders, "kernels": args.kernels, "median": medians, "runs": found}
    )
    print(medians)


def build(told: Any, how: str, builders: int, kernels: int) -> None:
    """Have kernels of a GPU built, which needs none, and tell the seconds."""
    source = MetaSchedule()
    candidates = sample_candidates(Workload.parse(WORKLOAD), "cuda", kernels, SEED)
    with tempfile.TemporaryDirectory() as name:
        folder, begun = Path(name), time.perf_counter()
        with (
            _open_builders(builders, folder, SOURCES)
            if how == "forked"
            else LocalEngine(builders, folder) as engine
        ):
            calls = [(build_once, (source, each, "cuda", ARCHITECTURE, folder)) for each in candidates]
            jobs = [engine.submit(run_call, pickle.dumps(call)) for call in calls]
            first_s = min(done_after(jobs, begun))
            all_s = time.perf_counter() - begun
    multiprocessing.forkserver._forkserver._stop()  # type: ignore[attr-defined]  # its seconds count once it is gone
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    told.send({"first_s": first_s, "all_s": all_s, "processor_s": used.ru_utime + used.ru_stime})


def done_after(jobs: Sequence[Any], begun: float) -> list[float]:
    """Seconds after which each was done."""
    ends: list[float] = []
    for job in jobs:
        job.add_done_callback(lambda _: ends.append(time.perf_counter() - begun))
    for job in jobs:
        job.result()
    return ends


if __name__ == "__main__":
    main()
