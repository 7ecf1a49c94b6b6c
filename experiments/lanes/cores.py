"""Processor seconds of build processes, which are told from others by their niceness."""

import os
import threading
import time
from types import TracebackType
from typing import Self

import numpy as np
import psutil

_LOOK_EVERY_S = 0.25


class BuilderCores:
    """Watches the build processes among all that this process starts until the ``with`` block ends.

    Attributes:
        seconds: Processor seconds that they took, with the linkers that they started.
    """

    def __init__(self) -> None:
        self._own = os.nice(0)
        self._done = threading.Event()
        self._before = {process.pid for process in psutil.Process().children(recursive=True)}
        self._by_process: dict[tuple[int, float], float] = {}
        self._looks: list[tuple[float, float]] = [(time.time(), 0.0)]
        self._thread = threading.Thread(target=self._watch, daemon=True)

    @property
    def seconds(self) -> float:
        return sum(self._by_process.values())

    def between(self, start: float, end: float) -> float:
        """Those that they took between two moments, in seconds since the epoch."""
        times, seconds = zip(*self._looks, strict=True)
        first, last = np.interp([start, end], times, seconds)
        return float(last - first)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(_LOOK_EVERY_S):
            self._look()

    def _look(self) -> None:
        for process in psutil.Process().children(recursive=True):
            if process.pid in self._before:
                continue
            try:
                with process.oneshot():
                    is_builder = process.nice() > self._own and "spawn_main" in "".join(process.cmdline())
                    key, times = (process.pid, process.create_time()), process.cpu_times()
            except psutil.Error:  # it ended meanwhile
                continue
            if is_builder:
                self._by_process[key] = sum(times[:4])
        self._looks.append((time.time(), self.seconds))


def cores() -> int:
    """Hardware threads that this process may use."""
    return len(os.sched_getaffinity(0))


def burn() -> None:
    """Keep a core busy, giving way as a builder does, until the process that started it is gone."""
    os.nice(10)
    parent = os.getppid()
    while os.getppid() == parent:
        sum(range(100_000))
