"""What several processes measure at once, in turns or on lanes."""

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from cores import burn

from costmodel.collector import CpuRunner, CudaRunner
from costmodel.collector.device._device import open_device
from costmodel.collector.device._job import DeviceSetup
from costmodel.collector.runners._base import Request
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


class Crew:
    """Processes that have opened a GPU each, and measure at once when they are told to.

    Attributes:
        sms: That each kernel is measured on.
        lanes: Whether they measure on lanes; in turns if not.
    """

    def __init__(self, kind: str, kernels: Path, sms: int, processes: int, *, lanes: bool) -> None:
        """Start the processes, with the environment as it is now.

        Args:
            kind: Of the device.
            kernels: Folder where the kernels are built.
            sms: That each kernel is measured on.
            processes: How many.
            lanes: Whether they measure on lanes.
        """
        self.sms, self.lanes = sms, lanes
        self._members = [_Member(kind, kernels, lanes=lanes) for _ in range(processes)]

    def wait_ready(self, limit_s: float) -> float:
        """Wait until each has opened its device; seconds that it took.

        Raises:
            RuntimeError: One fails.
            TimeoutError: They are not ready in time.
        """
        start = time.monotonic()
        for member in self._members:
            member.answer(start + limit_s)
        return time.monotonic() - start

    def measure(self, tasks: Tasks, limit_s: float, *, first_alone: bool = False) -> dict[str, Any]:
        """Each process measures its share of the tasks while the others do.

        Args:
            tasks: Kernels by workload.
            limit_s: Seconds that it may take.
            first_alone: The first process measures its share, and the others nothing.

        Returns:
            Seconds from the first to the last measurement, and latencies by task.

        Raises:
            RuntimeError: One fails.
            TimeoutError: They are not done in time.
        """
        start = time.monotonic()
        shares = [dict(list(tasks.items())[i :: len(self._members)]) for i in range(len(self._members))]
        at_work = list(zip(self._members, shares, strict=True))[: 1 if first_alone else None]
        for member, share in at_work:
            member.ask((share, self.sms, self.lanes))
        told = [member.answer(start + limit_s) for member, _ in at_work]
        seconds = time.monotonic() - start
        return {
            "seconds": seconds,
            "latency_s": {name: found for each in told for name, found in each.items()},
        }

    def close(self) -> None:
        """End the processes."""
        for member in self._members:
            member.close()


class _Member:
    """One process of a crew."""

    def __init__(self, kind: str, kernels: Path, *, lanes: bool) -> None:
        self._ours, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, kind, kernels, lanes))
        self._process.start()
        theirs.close()

    def ask(self, work: tuple[Tasks, int, bool]) -> None:
        self._ours.send(work)

    def answer(self, deadline: float) -> dict[str, Any]:
        """What it has to say by a moment.

        Raises:
            RuntimeError: It failed.
            TimeoutError: It says nothing.
        """
        if not self._ours.poll(max(0.0, deadline - time.monotonic())):
            raise TimeoutError("a process says nothing in time")
        try:
            told: dict[str, Any] = self._ours.recv()
        except EOFError:
            raise RuntimeError("a process died") from None
        if "error" in told:
            raise RuntimeError(told["error"])
        return told

    def close(self) -> None:
        self._process.kill()
        self._process.join()


def _serve(pipe: Any, kind: str, kernels: Path, lanes: bool) -> None:
    """Open the device, and measure what is asked for until this is ended."""
    try:
        with opened(kind, kernels, lanes=lanes) as runner:
            runner.platform()
            pipe.send({})
            while True:
                share, sms, on_lane = pipe.recv()
                pipe.send(
                    {name: measured(runner, some, sms, 0, lane=on_lane) for name, some in share.items()}
                )
    except Exception as error:  # noqa: BLE001 (it is told)
        pipe.send({"error": f"{type(error).__name__}: {error}"})


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
        "full_alone_s": found[0]["full_alone_s"],
        "full_at_once_s": [each["full_at_once_s"] for each in found],
    }


def _are_disjoint(ids: Sequence[Sequence[int]]) -> bool:
    return len(set().union(*ids)) == sum(map(len, ids))


_BEGIN: list[Any] = []
_FULL_SM = 32  # blocks that an SM of a GPU of compute capability 9.0 holds


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
    begin.wait()
    full_alone_s = _spin_s(device, lane, _FULL_SM * len(lane)) if lane.start == 0 else 0.0
    begin.wait()
    full_at_once_s = _spin_s(device, lane, _FULL_SM * len(lane))
    begin.wait()
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
        "full_alone_s": full_alone_s,
        "full_at_once_s": full_at_once_s,
    }


def _spin_s(device: Any, lane: range, blocks: int = 1) -> float:
    """Seconds of blocks that spin for some 100 ms each; they all fit on the lane unless others run there."""
    contexts = device._contexts
    stream = contexts.lane(lane)
    start = time.monotonic()
    device._spin._launch(stream, blocks, 200_000_000)
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
