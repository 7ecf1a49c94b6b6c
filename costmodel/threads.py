"""The threads of this machine, and how Python uses one: beside a second one, or without looking for garbage.

The second one is for calls that release Python's lock: those of NumPy, pandas and Arrow, and access to files.
"""

import gc
import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def cpu_threads() -> int:
    """Return the number of hardware threads that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpu_model() -> str:
    """Return the CPU's model if the kernel reports it; else an empty string."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    return ""


class SecondThread:
    """A thread that runs one call after the other; while one is under way, the next is prepared here.

    As a context it waits for the last call when it is left.
    """

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1)
        self._under_way: Future[Any] | None = None

    def run(self, call: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> None:
        """Begin a call, once the one before has ended; what that one raised is raised here."""
        self.wait()
        self._under_way = self._thread.submit(call, *args, **kwargs)

    def wait(self) -> None:
        """Wait for the call that is under way; what it raised is raised here."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.shutdown()


def make_ahead(items: Iterable[T]) -> Iterator[T]:
    """The items; while one is used, the next is made on a thread."""
    coming, end = iter(items), object()
    with ThreadPoolExecutor(1) as thread:
        item = thread.submit(next, coming, end)
        while (made := item.result()) is not end:
            item = thread.submit(next, coming, end)
            yield made  # type: ignore[misc]


@contextmanager
def collecting_nothing() -> Iterator[None]:
    """Keep Python from looking for cycles of objects while many are made that have none, in all threads.

    It would look at each of them many times.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
