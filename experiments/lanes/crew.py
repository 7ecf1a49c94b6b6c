"""What several processes measure at once, in turns or on lanes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from threading import BrokenBarrierError
from typing import Any, NamedTuple

from cores import burn

from costmodel.collector import CpuRunner, CudaRunner, Request
from costmodel.collector.device import DeviceSetup, open_device
from costmodel.records import Candidate, Measurement

_SPAWN = get_context("spawn")
RUNNERS: Mapping[str, Any] = {"cuda": CudaRunner, "cpu": CpuRunner}
Tasks = Mapping[str, Sequence[Candidate]]  # kernels by workload


def opened(kind: str, kernels: Path, *, lanes: bool = False, builders: int = 1) -> Any:
    """A runner that finds the kernels where they were built."""
    settings = {"lanes": True} if lanes else {}
    return RUNNERS[kind](kernels=kernels, build_workers=builders, **settings)


def measured(runner: Any, candidates: Sequence[Candidate], sms: int, visit: int, *, lane: bool) -> list[Any]:
    """Latency in seconds of each kernel, timed one after the other as a search does; None where it fails."""
    platform = runner.platform(sms)
    batches = [runner.submit([Request(each, platform, visit, lane=lane)]) for each in candidates]
    found: list[Measurement] = [one for batch in batches for one in batch.result()]
    return [one.latency_s if one.latencies_s else None for one in found]


class Crew(NamedTuple):
    """Processes that measure at once.

    Attributes:
        kind: Of the device.
        kernels: Folder where the kernels were built.
        sms: That each kernel is measured on.
        processes: How many.
        lanes: Whether they measure on lanes; in turns if not.
    """

    kind: str
    kernels: Path
    sms: int
    processes: int
    lanes: bool

    def measure(self, tasks: Tasks, limit_s: float) -> dict[str, Any]:
        """Each process measures its share of the tasks while the others do.

        On lanes the first process measures its share before the others begin, too.

        Returns:
            Seconds from the first to the last measurement, and latencies by task.

        Raises:
            RuntimeError: One fails.
            Empty: They are not done in time.
        """
        shares = [dict(list(tasks.items())[i :: self.processes]) for i in range(self.processes)]
        signals = Signals(_SPAWN.Barrier(self.processes + 1), _SPAWN.Event(), _SPAWN.Queue())
        processes = [
            _SPAWN.Process(target=_share, args=(self, share, i, signals)) for i, share in enumerate(shares)
        ]
        for process in processes:
            process.start()
        try:
            with suppress(BrokenBarrierError):  # who broke it tells why
                signals.ready.wait(limit_s)
            alone = _told(signals, limit_s) if self.lanes else {}
            start = time.monotonic()
            signals.go.set()
            told = [_told(signals, limit_s) for _ in processes]
            seconds = time.monotonic() - start
            return {
                "seconds": seconds,
                "latency_s": {name: found for each in told for name, found in each["latency_s"].items()},
                "lane_alone_s": alone.get("latency_s", {}),
            }
        finally:
            for process in processes:
                process.kill()
                process.join()


class Signals(NamedTuple):
    """What the processes of a crew tell each other.

    Attributes:
        ready: All are ready to measure.
        go: All may.
        results: What each found.
    """

    ready: Any
    go: Any
    results: Any


def _told(signals: Signals, limit_s: float) -> dict[str, Any]:
    """What a process has to say.

    Raises:
        RuntimeError: It failed.
    """
    told: dict[str, Any] = signals.results.get(timeout=limit_s)
    if "error" in told:
        raise RuntimeError(told["error"])
    return told


def _share(crew: Crew, share: Tasks, position: int, signals: Signals) -> None:
    """Measure a share of the tasks."""
    try:
        with opened(crew.kind, crew.kernels, lanes=crew.lanes) as runner:
            for candidates in share.values():  # which reads the kernels, and puts inputs on the device
                measured(runner, candidates[:1], crew.sms, 2, lane=crew.lanes)
            signals.ready.wait()
            if crew.lanes and position == 0:
                signals.results.put({"latency_s": _all(runner, share, crew)})
            signals.go.wait()
            signals.results.put({"latency_s": _all(runner, share, crew)})
            time.sleep(600)  # until all are done, and this is ended
    except Exception as error:  # noqa: BLE001 (it is told)
        signals.ready.abort()
        signals.results.put({"error": f"{type(error).__name__}: {error}"})
        time.sleep(600)


def _all(runner: Any, share: Tasks, crew: Crew) -> dict[str, list[Any]]:
    return {name: measured(runner, each, crew.sms, 0, lane=crew.lanes) for name, each in share.items()}


def count_lanes(sms: int, lanes: int, limit_s: float) -> dict[str, Any]:
    """Which SMs each of some processes has, as the device counts them, and if they run side by side."""
    begin = _SPAWN.Barrier(lanes, timeout=limit_s / 2)
    with _SPAWN.Pool(lanes, initializer=_join, initargs=(begin,)) as pool:
        asked = [range(i * sms, (i + 1) * sms) for i in range(lanes)]
        found = pool.map_async(_count, asked, chunksize=1).get(limit_s)
    ids, of_split = ([each[way] for each in found] for way in ("ids", "ids_of_split"))
    return {
        "counted": [len(each) for each in ids],
        "disjoint": _are_disjoint(ids),
        "ids": ids,
        "counted_of_split": [len(each) for each in of_split],
        "disjoint_of_split": _are_disjoint(of_split),
        "spin_alone_s": found[0]["alone_s"],
        "spin_at_once_s": [each["at_once_s"] for each in found],
    }


def _are_disjoint(ids: Sequence[Sequence[int]]) -> bool:
    return len(set().union(*ids)) == sum(map(len, ids))


_BEGIN: list[Any] = []


def _join(begin: Any) -> None:
    _BEGIN.append(begin)


def _count(lane: range) -> dict[str, Any]:
    """The SMs of a lane, and how long a block takes to spin there, alone and beside the other processes."""
    (begin,) = _BEGIN
    device: Any = open_device(DeviceSetup("cuda", 1, artifacts=(".cubin",)))
    begin.wait()
    alone_s = _spin_s(device, lane) if lane.start == 0 else 0.0
    begin.wait()
    at_once_s = _spin_s(device, lane)
    ids = set(device.sm_ids(lane))
    for _ in range(20):  # while the others do the same
        ids |= device.sm_ids(lane)
    begin.wait()
    streams, _ = device._contexts.streams(len(lane), begin.parties)
    of_split = device._spin.sm_ids(streams[lane.start // len(lane)])
    return {
        "ids": sorted(ids),
        "ids_of_split": sorted(of_split),
        "alone_s": alone_s,
        "at_once_s": at_once_s,
    }


def _spin_s(device: Any, lane: range) -> float:
    """Seconds of a block that spins for some 100 ms."""
    contexts = device._contexts
    stream = contexts.lane(lane)
    start = time.monotonic()
    device._spin.launch(stream, 200_000_000)
    contexts.call(contexts.driver.cuStreamSynchronize(stream))
    return time.monotonic() - start


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Keep cores busy meanwhile, as builders do."""
    crew = [_SPAWN.Process(target=burn, daemon=True) for _ in range(processes)]
    for process in crew:
        process.start()
    try:
        yield
    finally:
        for process in crew:
            process.kill()
            process.join()
