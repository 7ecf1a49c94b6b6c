"""What the standard library's futures lack."""

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any


def when_all_are_done(futures: Sequence["Future[Any]"], act: Callable[[], None]) -> None:
    """Call ``act`` once, in the thread that finishes the last of the futures."""
    left = [len(futures)]
    lock = threading.Lock()

    def count_down(_: "Future[Any]") -> None:
        with lock:
            left[0] -= 1
            last = left[0] == 0
        if last:
            act()

    for future in futures:
        future.add_done_callback(count_down)


def cancel(future: "Future[Any]") -> None:
    """Cancel a future that nobody runs, and tell those who wait for it."""
    future.cancel()
    future.set_running_or_notify_cancel()
