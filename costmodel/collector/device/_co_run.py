"""Times kernels on several partitions of a device at once, one thread a partition."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import cycle, islice
from typing import Any

from msgspec.structs import replace

from costmodel.collector.device._pace import Pace
from costmodel.collector.device._timing import Timed, Timing, runs_within, time_kernels
from costmodel.collector.device._worker import ClosableStopwatch

_OpenLane = Callable[[Any], ClosableStopwatch]


def time_side_by_side(
    kernels: Mapping[str, Any], lanes: Sequence[_OpenLane], timing: Timing, pace: Pace
) -> dict[str, Timed]:
    """Time kernels on all partitions at once, each beside others.

    A partition that has no more to do goes on with its last kernel until all are done. With fewer kernels
    than partitions, those left over run one that is measured elsewhere: only its co-runners tell a
    measurement made beside others from one made alone.

    Args:
        kernels: Loaded kernels by name.
        lanes: For each of two or more partitions, what makes a stopwatch for a kernel there, in the thread
            that uses it.
        timing: Settings.
        pace: The device's, told by sensors that the kernels do not disturb.

    Returns:
        Timings by name; ``co_runners`` are the names of those that ran beside it, sorted, its own if it did
        so itself.
    """
    found: dict[str, Timed] = {}
    if not kernels:
        return found
    at_work = _Lanes(list(kernels), len(lanes))

    def work(position: int) -> None:
        with ExitStack() as cleanup:
            cleanup.callback(at_work.leave, position)
            watch = _open(lanes[position], kernels[at_work.running[position]], cleanup)
            while at_work.is_busy(position):
                name = at_work.running[position]
                timed = time_kernels({name: watch}, timing, pace)[name]
                found[name] = replace(timed, co_runners=at_work.beside(position))
                if at_work.advance(position):
                    watch = _open(lanes[position], kernels[at_work.running[position]], cleanup)
            runs = 1
            while not at_work.all_left:
                runs = runs_within(timing.repeat_s, watch.time(runs), timing)

    with ThreadPoolExecutor(len(lanes)) as threads:
        for job in [threads.submit(work, position) for position in range(len(lanes))]:
            job.result()
    return found


def _open(lane: _OpenLane, kernel: Any, cleanup: ExitStack) -> ClosableStopwatch:
    """A stopwatch that is closed with the lane."""
    watch = lane(kernel)
    cleanup.callback(watch.close)
    return watch


class _Lanes:
    """Who runs on which partition, and who ran beside whom.

    Attributes:
        running: What runs, by partition.
    """

    def __init__(self, names: list[str], partitions: int) -> None:
        """All partitions start at once, so that the first kernels know of each other."""
        self._lock = threading.Lock()
        self._left = names[partitions:]
        self.running = list(islice(cycle(names), partitions))
        self._busy = set(range(min(len(names), partitions)))
        self._beside = [self._others(position) for position in range(partitions)]

    def advance(self, position: int) -> bool:
        """Start the next kernel on a partition; False, and the last one goes on, where none is left."""
        with self._lock:
            if not self._left:
                self._busy.discard(position)
                return False
            self.running[position] = name = self._left.pop(0)
            self._beside[position] = self._others(position)
            for i, beside in enumerate(self._beside):
                if i != position:
                    beside.add(name)
            return True

    def _others(self, position: int) -> set[str]:
        """What runs now on the other partitions."""
        return {name for i, name in enumerate(self.running) if i != position}

    def beside(self, position: int) -> tuple[str, ...]:
        """Those that ran on other partitions since this one started its kernel."""
        with self._lock:
            return tuple(sorted(self._beside[position]))

    def leave(self, position: int) -> None:
        """This partition measures nothing any more."""
        with self._lock:
            self._busy.discard(position)

    def is_busy(self, position: int) -> bool:
        """Whether this partition has something left to measure."""
        return position in self._busy

    @property
    def all_left(self) -> bool:
        """Whether no partition has anything left to measure."""
        return not self._busy
