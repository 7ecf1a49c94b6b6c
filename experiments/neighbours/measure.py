"""Times kernels beside each other on disjoint partitions of a GPU, and alone: see README.md."""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec
import numpy as np
from kernels import KERNELS, Kernel, candidate
from machine import WHOLE, Layout, Machine, Place
from measured import key, slowdowns
from numpy.typing import NDArray

from costmodel.collector._builders import Builders, start_build_workers
from costmodel.collector.device._workload_data import WorkloadData
from costmodel.errors import CostModelError
from costmodel.kernels import KernelSource
from costmodel.kernels._artifact import Built
from costmodel.kernels._sources import open_sources
from costmodel.records import Candidate, Workload
from costmodel.threads import cpu_threads

sys.path.append(str(Path(__file__).parents[1]))
from kit.results import markdown_table, say

LAYOUTS: tuple[Layout, ...] = ((64, 64), (32, 100), (16, 116), (40, 80))
ROUNDS = 3
ALONE_S, BESIDE_S = 1.5e-3, 4e-3  # of one round
BUILDING = 0.6  # of the time at most: kernels that are not built by then are left out
AGAIN = 0.1  # of the time that is left: pairs that are measured once more
COLD = 0.12  # of that time: kernels alone that find nothing in the cache
ARCHITECTURE = "sm_90"
BUILDS = Path(tempfile.gettempdir()) / "costmodel-neighbours"


class BrokenDeviceError(Exception):
    """A kernel's fault has left this process without the device; the arguments are the kernels at fault."""


class Parts(Protocol):
    """What ``Machine`` does for the measurement."""

    def split(self, layout: Layout) -> tuple[int, int]: ...
    def describe(self) -> dict[str, Any]: ...
    def open_runtimes(self, artifacts: Collection[str]) -> None: ...
    def data(self, source: KernelSource, workload: Workload, reference: Path) -> WorkloadData: ...
    def load(self, name: str, artifact: Path, data: WorkloadData) -> None: ...
    def is_broken(self) -> bool: ...
    def time(self, kernels: Sequence[tuple[str, Place]], window_s: float) -> list[float]: ...
    def time_cold(self, name: str, place: Place, window_s: float, rounds: int) -> list[float]: ...
    def sensors(self) -> dict[str, Any]: ...


class Rows:
    """Files of JSON lines, each line on the disk as soon as it is known."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, kind: str, row: Mapping[str, Any]) -> None:
        with (self._folder / f"{kind}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    def read(self, kind: str) -> list[dict[str, Any]]:
        path = self._folder / f"{kind}.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def main() -> None:
    args = parse()
    rows = Rows(args.out)
    machine = Machine()  # before anything is built: where there is no GPU it is told at once
    try:
        measure(machine, load_all(machine, args, rows), rows, args.until)
    except BrokenDeviceError as error:
        start_anew(args, error.args)
    print(table(rows))


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--time-limit", type=float, default=150.0, metavar="SECONDS")
    parser.add_argument(
        "--until", type=float, help="the same as seconds since 1970: for a process started anew"
    )
    parser.add_argument("--only", action="append", default=[], metavar="KERNEL", help="again for more")
    parser.add_argument("--without", action="append", default=[], metavar="KERNEL", help="again for more")
    parser.add_argument("--builds", type=Path, default=BUILDS, metavar="DIR", help="where kernels are kept")
    args = parser.parse_args(argv)
    args.until = args.until or time.time() + args.time_limit
    return args


def load_all(machine: Parts, args: argparse.Namespace, rows: Rows) -> list[str]:
    """Build kernels, and load those that are ready in time and whose output is right; the names of these.

    Raises:
        BrokenDeviceError: A kernel faults.
    """
    late = time.time() + BUILDING * (args.until - time.time())
    names = [name for name in args.only or [each.name for each in KERNELS] if name not in args.without]
    wanted = {each.name: each for each in KERNELS if each.name in names}
    sources = dict(installed(sorted({each.source for each in wanted.values()}), rows))
    candidates = dict(chosen(wanted, sources, rows))
    found = set()

    def prepare(name: str) -> tuple[Path, Built, WorkloadData]:
        """What takes the host long, for several kernels at once."""
        built, reference = builders.built(candidates[name])
        if built.library is None or reference is None:
            raise RuntimeError(f"{built.outcome}: {built.error}")
        data = machine.data(sources[wanted[name].source], candidates[name].workload, reference)
        return built.library, built, data

    with opened_builders(list(sources.values()), args.builds) as builders, ThreadPoolExecutor(16) as threads:
        builders.prefetch(list(candidates.values()))
        machine.open_runtimes({source.artifact for source in sources.values()})  # takes seconds, too
        jobs = {threads.submit(prepare, name): name for name in candidates}
        try:
            for job in as_completed(jobs, max(0.0, late - time.time())):
                with noted(machine, rows, name := jobs.pop(job)):
                    artifact, built, data = job.result()
                    machine.load(name, artifact, data)
                    found.add(name)
                    row = {"kernel": name, "candidate": msgspec.to_builtins(candidates[name])}
                    row |= {"argument_bytes": data.bytes // 2}
                    rows.add("kernels", row | {"resources": msgspec.to_builtins(built.resources)})
        except TimeoutError:
            threads.shutdown(wait=False, cancel_futures=True)
            builders.close()
            rows.add("errors", {"kernels": sorted(jobs.values()), "error": "not built in time"})
    say(f"{len(found)} of {len(wanted)} kernels are loaded, {args.until - time.time():.0f} s are left")
    return [name for name in wanted if name in found]


def installed(names: Sequence[str], rows: Rows) -> Iterator[tuple[str, KernelSource]]:
    """Those of the sources that have what they need here."""
    for source in open_sources(names):
        try:
            source.check_installed("cuda")
            yield source.name, source
        except CostModelError as error:
            rows.add("errors", {"source": source.name, "error": str(error)[:500]})
            say(str(error))


def chosen(
    wanted: Mapping[str, Kernel], sources: Mapping[str, KernelSource], rows: Rows
) -> Iterator[tuple[str, Candidate]]:
    """The candidates of kernels, of those that have one."""
    for name, kernel in wanted.items():
        if kernel.source not in sources:
            continue
        try:
            yield name, candidate(kernel, sources)
        except CostModelError as error:
            rows.add("errors", {"kernels": [name], "error": str(error)[:500]})


@contextmanager
def opened_builders(sources: Sequence[KernelSource], folder: Path) -> Iterator[Builders]:
    """Build processes that end with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    engine = start_build_workers(sources, "cuda", ARCHITECTURE, max(1, cpu_threads() - 1), folder)
    builders = Builders(engine, sources, "cuda", ARCHITECTURE, folder, 60.0)
    try:
        yield builders
    finally:
        builders.close()
        engine.close()


def start_anew(args: argparse.Namespace, without: Sequence[str]) -> None:
    """This process again, without kernels that broke the device for it."""
    say(f"starting anew without {', '.join(without)}")
    kernels = [word for name in args.only for word in ("--only", name)]
    kernels += [word for name in (*args.without, *without) for word in ("--without", name)]
    command = [sys.argv[0], "--out", str(args.out), "--builds", str(args.builds), "--until", str(args.until)]
    os.execv(sys.executable, [sys.executable, *command, *kernels])


class Pair(NamedTuple):
    """Two kernels on a layout.

    Attributes:
        layout: SMs asked for, of both partitions.
        sms: SMs that were granted.
        left: Name of the kernel on the first partition.
        right: Name of the one on the second.
    """

    layout: Layout
    sms: tuple[int, int]
    left: str
    right: str


def measure(machine: Parts, names: Sequence[str], rows: Rows, until: float) -> None:
    """All kernels on the whole device, pairs until the time is over, some of them and the whole again."""
    granted = dict(split_all(machine, rows))
    with noted(machine, rows):
        rows.add("about", machine.describe() | {"sms": [[list(k), list(v)] for k, v in granted.items()]})
    alone_on_whole(machine, names, rows, 0)
    pairs = [
        Pair(layout, sms, *both)
        for layout, sms in granted.items()
        for both in (
            combinations_with_replacement(names, 2) if layout[0] == layout[1] else product(names, repeat=2)
        )
    ]
    order = np.random.default_rng(0).permutation(len(pairs))
    left_s = until - time.time()
    done = []
    for i in order:
        if time.time() > until - (AGAIN + COLD) * left_s:
            break
        done.append(pairs[i])
        measure_pair(machine, pairs[i], rows, 0)
    say(f"{len(done)} of {len(pairs)} pairs")
    alone_on_whole(machine, names, rows, 1)
    for pair in done:
        if time.time() > until - COLD * left_s:
            break
        measure_pair(machine, pair, rows, 1)
    for layout, sms in granted.items():
        for name, side in product(names, (0, 1)):
            if time.time() > until:
                return
            with noted(machine, rows, name):
                times = machine.time_cold(name, (layout, side), ALONE_S, ROUNDS)
                rows.add("cold", {"kernel": name, "sms": sms, "side": side, "latency_s": times})


def split_all(machine: Parts, rows: Rows) -> Iterator[tuple[Layout, tuple[int, int]]]:
    """The layouts that the device grants, with the SMs of each."""
    for layout in LAYOUTS:
        try:
            yield layout, machine.split(layout)
        except RuntimeError as error:
            rows.add("errors", {"layout": layout, "error": str(error)[:500]})
            say(f"{layout}: {error}")


def alone_on_whole(machine: Parts, names: Sequence[str], rows: Rows, visit: int) -> None:
    """Each kernel on all SMs."""
    for name in names:
        with noted(machine, rows, name):
            times = [machine.time([(name, (WHOLE, 0))], ALONE_S)[0] for _ in range(ROUNDS)]
            rows.add("whole", {"kernel": name, "visit": visit, "latency_s": times})


def measure_pair(machine: Parts, pair: Pair, rows: Rows, visit: int) -> None:
    """Two kernels in turn alone, each on its partition, and beside each other; several rounds."""
    both: list[tuple[str, Place]] = [(pair.left, (pair.layout, 0)), (pair.right, (pair.layout, 1))]
    with noted(machine, rows, pair.left, pair.right):
        alone, beside = [], []
        for _ in range(ROUNDS):
            alone.append([machine.time([one], ALONE_S)[0] for one in both])
            beside.append(machine.time(both, BESIDE_S))
        row = {"kernels": [pair.left, pair.right], "sms": pair.sms, "visit": visit}
        row |= {"alone_s": np.transpose(alone).tolist(), "beside_s": np.transpose(beside).tolist()}
        rows.add("pairs", row | {"at_s": round(time.time(), 2)} | machine.sensors())


@contextmanager
def noted(machine: Parts, rows: Rows, *names: str) -> Iterator[None]:
    """Goes on after an error of kernels, which is written down.

    Raises:
        BrokenDeviceError: The process can go on with nothing.
    """
    try:
        yield
    except Exception as error:
        rows.add("errors", {"kernels": names, "error": str(error)[:500]})
        say(f"{', '.join(names)}: {error}")
        if machine.is_broken():
            raise BrokenDeviceError(*names) from error


def table(rows: Rows) -> str:
    """Slowdowns by the SMs of the partitions, and how far they repeat."""
    pairs = rows.read("pairs")
    first = [each for each in pairs if not each["visit"]]
    header, cells = ("SMs", "pairs", "slowdown: median", "90th percentile", "largest"), []
    for sms in sorted({tuple(each["sms"]) for each in first}):
        found = np.concatenate([slowdowns(each) for each in first if tuple(each["sms"]) == sms])
        low, high = np.quantile(found, [0.5, 0.9])
        spread = (f"{each:.3f}" for each in (low, high, found.max()))
        cells.append((f"{sms[0]} + {sms[1]}", len(found) // 2, *spread))
    lines = [markdown_table(header, cells)]
    known = {key(each): slowdowns(each) for each in first}
    again = [np.abs(slowdowns(e) / known[key(e)] - 1) for e in pairs if e["visit"] and key(e) in known]
    if again:
        lines.append(f"\nSlowdowns of {len(again)} pairs again: {_spread(np.concatenate(again))}")
    kernels = {each["kernel"] for each in rows.read("kernels")}
    lines.append(f"Kernels: {len(kernels)}; errors: {len(rows.read('errors'))}")
    return "\n".join(lines)


def _spread(shifts: NDArray[np.float64]) -> str:
    median, high = np.quantile(shifts, [0.5, 0.9])
    return f"median {median:.2%}, 90th percentile {high:.2%}, largest {shifts.max():.2%}"


if __name__ == "__main__":
    main()
