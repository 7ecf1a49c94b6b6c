"""A second thread for calls that release Python's lock: NumPy, pandas and Arrow, and file access."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ParamSpec, Self, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


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
