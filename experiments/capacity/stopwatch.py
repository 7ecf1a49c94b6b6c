"""Notes of how long the stages of tuning took, made where they run: see README.md here."""

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from costmodel.collector import LocalEngine
from costmodel.collector.device._device import time_job
from costmodel.collector.device._job import DeviceSetup, KernelJob, TimedKernels
from costmodel.records import Candidate

BUILD, MEASURE = "build", "measure"


class HostWatch:
    """Times what tunes do themselves, each in its thread, between what they ask of builders and devices.

    Args:
        clock: Seconds by the clock, or those of a thread on a processor.

    Attributes:
        start_s: Seconds until the first batch of each tune.
        propose_s: Seconds for each other batch: learning from what was told, and proposing.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.start_s: list[float] = []
        self.propose_s: list[float] = []
        self._tune = threading.local()

    def begin(self) -> None:
        """A tune begins in this thread."""
        self._tune.is_new, self._tune.seconds, self._tune.since = True, 0.0, self._clock()

    def pause(self) -> None:
        """The tune of this thread waits."""
        self._tune.seconds += self._clock() - self._tune.since

    def go_on(self) -> None:
        """It works again."""
        self._tune.since = self._clock()

    def proposed(self) -> None:
        """It proposed a batch."""
        self.pause()
        (self.start_s if self._tune.is_new else self.propose_s).append(round(self._tune.seconds, 5))
        self._tune.is_new, self._tune.seconds = False, 0.0
        self.go_on()


class Watched:
    """Makes a runner tell a watch what is asked of it."""

    watch: HostWatch
    _asked = threading.local()

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Start building."""
        if not getattr(self._asked, "measures", False):  # which begins by prefetching
            self.watch.proposed()
        super().prefetch(candidates)  # type: ignore[misc]

    def measure(self, *arguments: Any, **options: Any) -> Any:
        """Measure."""
        self.watch.pause()
        self._asked.measures = True
        try:
            return super().measure(*arguments, **options)  # type: ignore[misc]
        finally:
            self._asked.measures = False
            self.watch.go_on()


class TimedEngine(LocalEngine):
    """Processes of this machine that note how long each build takes.

    Args:
        notes: Folder of the notes.
        count: Processes.
        prepare: What each process does first.
    """

    def __init__(self, notes: Path, count: int, prepare: Callable[[], None]) -> None:
        super().__init__(count, prepare=prepare)
        self._notes = notes

    def submit(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> "Future[Any]":
        """Queue a job."""
        if getattr(function, "__name__", "") == "build_kernel":
            function = partial(timed, self._notes, BUILD, 1, function)
        return super().submit(function, *arguments, **options)


def timed(folder: Path, name: str, kernels: int, function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function, and note its kernels, and its seconds by the clock and on processors."""
    wall_s, processor_s = time.perf_counter(), on_processor_s()
    found = function(*arguments)
    note = [name, kernels, time.perf_counter() - wall_s, on_processor_s() - processor_s]
    with (folder / f"{os.getpid()}.jsonl").open("a") as file:
        file.write(json.dumps(note) + "\n")
    return found


def on_processor_s() -> float:
    """Processor seconds of this process, and of those that it started and that ended, as linkers do."""
    return sum(os.times()[:4])


def timed_measurement(folder: Path, setup: DeviceSetup, job: KernelJob) -> TimedKernels:
    """Time the kernels of a job, and note for how long the device was taken."""
    return timed(folder, MEASURE, sum(map(len, job.libraries.values())), time_job, setup, job)


def noted_s(folder: Path, name: str, *, on_processor: bool = False) -> list[float]:
    """Seconds for each kernel that jobs of a name took, by the clock unless the processor's are asked for."""
    lines = [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()
    ]
    return [
        round(line[2 + on_processor] / line[1], 5)
        for line in lines
        if line[0] == name
        for _ in range(line[1])
    ]
