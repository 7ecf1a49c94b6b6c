"""Files that are made on a machine that does not see this one's folders, and come back as bytes."""

import tempfile
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from costmodel.collector._engine import Engine
from costmodel.files import write_whole

T = TypeVar("T")
S = TypeVar("S")


class Made(NamedTuple, Generic[T]):
    """What a function gave, and the files that it left.

    Attributes:
        result: What it returned; paths in it are those of a folder that is gone.
        files: Contents by name, what was written last at the end.
    """

    result: T
    files: dict[str, bytes]


def make_elsewhere(make: Callable[..., T], *arguments: Any) -> Made[T]:
    """Call ``make(*arguments, folder)`` with a new folder; runs in a worker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = make(*arguments, folder)
        written = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return Made(result, {path.name: path.read_bytes() for path in written})


def submit_elsewhere(
    engine: Engine,
    make: Callable[..., T],
    *arguments: Any,
    folder: Path,
    moved: Callable[[T], T],
    timeout_s: float | None = None,
) -> Future[T]:
    """Have ``make(*arguments, folder)`` called by an engine that does not see ``folder``.

    Args:
        engine: Which calls.
        make: What makes files in a folder, its last argument.
        arguments: Its others.
        folder: Where the files go.
        moved: Gives what ``make`` returned the paths of ``folder``.
        timeout_s: Seconds after which the call is given up.
    """
    made = engine.submit(make_elsewhere, make, *arguments, timeout_s=timeout_s)
    return _then(made, partial(_keep, folder, moved))


def _keep(folder: Path, moved: Callable[[T], T], made: Made[T]) -> T:
    for name, content in made.files.items():
        write_whole(folder / name, content)
    return moved(made.result)


def _then(first: Future[T], act: Callable[[T], S]) -> Future[S]:
    """What ``act`` makes of the result of a future; cancelling it cancels the first."""
    second: Future[S] = Future()

    def pass_on(first: Future[T]) -> None:
        if first.cancelled():
            second.cancel()
        if not second.set_running_or_notify_cancel():
            return
        try:
            second.set_result(act(first.result()))
        except Exception as error:  # noqa: BLE001 (it goes to whoever waits)
            second.set_exception(error)

    second.add_done_callback(lambda second: first.cancel() if second.cancelled() else None)
    first.add_done_callback(pass_on)
    return second
