"""How busy the stages of this process's work are: how many jobs were done, and what time they took."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from typing import NamedTuple


class MeteredStage(NamedTuple):
    """A stage of the work.

    Attributes:
        name: What is done.
        where: What it is done on, such as a device.
    """

    name: str
    where: str = ""


class Tally(NamedTuple):
    """What a stage did since its process began.

    Attributes:
        done: Number of jobs that ended.
        busy_s: Seconds that jobs took together, those that go on included.
    """

    done: int = 0
    busy_s: float = 0.0


class Meter:
    """Counts the jobs of stages, from any thread."""

    def __init__(self) -> None:
        self._done: dict[MeteredStage, Tally] = {}
        self._open: dict[int, tuple[MeteredStage, float]] = {}
        self._numbers, self._lock = count(), threading.Lock()

    def begin(self, stage: MeteredStage) -> int:
        """Count a job from now on; what ``end`` takes."""
        with self._lock:
            number = next(self._numbers)
            self._open[number] = stage, time.perf_counter()
            return number

    def end(self, number: int) -> None:
        """Count a job as done, however it ended."""
        with self._lock:
            stage, begun = self._open.pop(number)
            done, busy_s = self._done.get(stage, Tally())
            self._done[stage] = Tally(done + 1, busy_s + time.perf_counter() - begun)

    @contextmanager
    def timing(self, stage: MeteredStage) -> Iterator[None]:
        """Count what is done in the context as a job."""
        number = self.begin(stage)
        try:
            yield
        finally:
            self.end(number)

    def totals(self) -> Mapping[MeteredStage, Tally]:
        """What each stage did so far."""
        with self._lock:
            totals, now = dict(self._done), time.perf_counter()
            for stage, begun in self._open.values():
                done, busy_s = totals.get(stage, Tally())
                totals[stage] = Tally(done, busy_s + now - begun)
            return totals


METER = Meter()
"""Counts all that this process does: whoever reports it sees runners and pools come and go."""
