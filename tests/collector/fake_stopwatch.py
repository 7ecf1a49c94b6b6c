"""Stopwatches that read a script instead of a clock."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, cycle, repeat

from costmodel.records._measurement import DeviceState


class FakeStopwatch:
    """Gives scripted latencies, the last of them for ever, and remembers how many runs it was asked for.

    Args:
        latencies_s: Seconds of one run, one number a call.
        log: Where its name goes at each call.
        name: Its name.
    """

    def __init__(self, latencies_s: Sequence[float], log: list[str] | None = None, name: str = "") -> None:
        self._script: Iterator[float] = chain(latencies_s, repeat(latencies_s[-1]))
        self._log = log
        self._name = name
        self.asked: list[int] = []

    def time(self, runs: int) -> float:
        self.asked.append(runs)
        if self._log is not None:
            self._log.append(self._name)
        return next(self._script)


def alternating(low: float, high: float) -> FakeStopwatch:
    """A stopwatch that never agrees with itself."""
    watch = FakeStopwatch([low])
    watch._script = cycle((low, high))
    return watch


def sensors(states: Iterable[DeviceState]) -> Callable[[], DeviceState]:
    """Reads one state after another, the last of them for ever."""
    known = list(states)
    script = chain(known, repeat(known[-1]))
    return lambda: next(script)
