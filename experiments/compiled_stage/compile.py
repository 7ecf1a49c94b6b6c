"""Compile the kernels of datasets and campaigns, and count what is in their machine code.

Needs TVM and NVRTC, but no GPU. Kernels come in an order in which every prefix has all workloads of a
dataset, so that a run that ends early has counted some of each. What was counted is written every minute.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

import costmodel
from costmodel.collector._build import build_or_read
from costmodel.collector._builders import start_build_workers
from costmodel.collector.campaign._config import find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.dataset._machine_code import write_machine_code
from costmodel.kernels._machine_code import MachineCode, machine_code
from costmodel.kernels.metaschedule._source import MetaSchedule, compile_cubin
from costmodel.records._candidate import Candidate

ARCHITECTURE = "sm_90"
TIMEOUT_S = 60.0  # of one kernel
SAVE_S = 60.0


def main(argv: Sequence[str] | None = None) -> None:
    """Compile until all is counted or the time is up, and print how many kernels there are of each place."""
    args = parse(argv)
    end = time.monotonic() + args.seconds
    args.out.mkdir(parents=True, exist_ok=True)  # of each shard, its own
    found: dict[str, MachineCode | None] = {}
    with tempfile.TemporaryDirectory() as folder:
        every = _candidates(args.places, Path(folder), args.every)
        todo = list(islice(every, args.shard[0], None, args.shard[1]))
        engine = start_build_workers((MetaSchedule(),), "cuda", ARCHITECTURE, args.workers, Path(folder))
        try:
            _compile(todo, engine, end, found, args.out)
        finally:
            engine.close()
    ran = sum(each is not None for each in found.values())
    print(
        f"shard {args.shard[0]} of {args.shard[1]}: {ran} of {len(todo)} kernels, {len(found) - ran} failed"
    )


def _compile(
    todo: "Sequence[tuple[Candidate, Path]]",
    engine: Any,
    end: float,
    found: dict[str, MachineCode | None],
    out: Path,
) -> None:
    """Keep all workers busy until nothing is left to do or the time is up."""
    left, running = iter(todo), dict[Future[MachineCode | None], str]()
    saved = time.monotonic()
    while time.monotonic() < end:
        for candidate, folder in islice(left, 256 - len(running)):
            job = engine.submit(count, candidate, folder, timeout_s=TIMEOUT_S)
            running[job] = candidate.candidate_id
        if not running:
            break
        done, _ = wait(running, timeout=5.0, return_when=FIRST_COMPLETED)
        for job in done:
            found[running.pop(job)] = None if job.exception() else job.result()
        if time.monotonic() > saved + SAVE_S:
            _write(found, out)
            saved = time.monotonic()
            print(f"{len(found)} of {len(todo)}", flush=True)
    _write(found, out)


def _write(found: Mapping[str, MachineCode | None], out: Path) -> None:
    write_machine_code(out, {id_: each for id_, each in found.items() if each is not None})


def count(candidate: Candidate, folder: Path) -> MachineCode | None:
    """Build a kernel, unless it is there, and count what is in it; None if it cannot. Runs in a worker."""
    built = build_or_read(MetaSchedule(), candidate, "cuda", ARCHITECTURE, folder)
    if built.library is None:
        return None
    return machine_code(built.library.read_bytes()) or machine_code(compile_cubin(candidate, ARCHITECTURE))


def _candidates(places: Sequence[str], scratch: Path, every: int) -> Iterator[tuple[Candidate, Path]]:
    """The kernels of each place, one of each workload in turn, and where they are built."""
    for place in places:
        folder, _, config = place.partition(":")
        by_workload = list(_drawn(Path(folder), config) if config else _recorded(place))[::every]
        built = CampaignFolder(Path(folder)).kernels / ARCHITECTURE if config else scratch
        built.mkdir(parents=True, exist_ok=True)
        for turn in range(max(map(len, by_workload), default=0)):
            yield from ((each[turn], built) for each in by_workload if turn < len(each))


def _drawn(folder: Path, config: str) -> Iterator[Sequence[Candidate]]:
    """The kernels of each workload of a campaign."""
    campaign = CampaignFolder(folder)
    yield from (campaign.proposals(each, 0) or () for each in find_campaign(config).parsed_workloads)


def _recorded(place: str) -> Iterator[Sequence[Candidate]]:
    """The kernels of each workload of a dataset."""
    dataset = costmodel.load_dataset(place)
    rows = dataset.rows.drop_duplicates("candidate")
    for _, of_workload in rows.groupby("workload", sort=True):
        yield dataset.columns.made(np.sort(of_workload["candidate"].to_numpy()))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Parse the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("places", nargs="+", help="datasets, and campaigns as FOLDER:CONFIG")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=540.0)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, help="take each of so many workloads")
    parser.add_argument("--shard", type=_shard, default=(0, 1), help="I/N: each Nth kernel from I on")
    return parser.parse_args(argv)


def _shard(text: str) -> tuple[int, int]:
    i, n = map(int, text.split("/"))
    return i, n


if __name__ == "__main__":
    main()
