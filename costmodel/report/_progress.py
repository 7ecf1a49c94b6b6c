"""Progress of long work: a bar in a terminal, one line in a notebook, an occasional line in a log."""

import html
import sys
import time
from collections.abc import Iterable, Iterator
from typing import Any, Protocol, Self, TypeVar

from costmodel.printable import make_printable

T = TypeVar("T")

# Seconds between two lines of a log, and between two changes of a notebook's line.
LOG_EVERY_S, NOTEBOOK_EVERY_S = 30.0, 1.0


class Progress:
    """Shows on stderr how many steps of long work are done, so that stdout stays clean for results.

    Example:
        >>> with Progress("measuring", total=2) as progress:
        ...     for name in ("a", "b"):
        ...         progress.advance(name)

    Args:
        what: Name of the work, such as ``measuring``.
        total: Number of steps, at least approximately.
    """

    def __init__(self, what: str, total: int) -> None:
        self._what = what
        self._count = _Count(total)
        self._display = _display(what, total)

    def __enter__(self) -> Self:
        self._display.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._display.stop()

    def show(self, detail: str) -> None:
        """Show the name of the current step."""
        self._display.show(make_printable(f"{self._what} {detail}".rstrip()), self._count)

    def advance(self, detail: str = "", steps: int = 1) -> None:
        """Count steps as done, and show the name of the last one."""
        self._count.done += steps
        self.show(detail)


def track(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items of a loop, while a display tells which is at hand; texts and paths by name."""
    with Progress(what, total) as progress:
        for item in items:
            progress.show(item if isinstance(item, str) else str(getattr(item, "name", "")))
            yield item
            progress.advance()


def duration(seconds: float) -> str:
    """Readable time, such as ``1 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class _Count:
    """Steps that are done of all."""

    def __init__(self, total: int) -> None:
        self.done, self.total = 0, total


class _Display(Protocol):
    """Where progress is shown."""

    def start(self) -> None: ...
    def show(self, text: str, count: _Count) -> None: ...
    def stop(self) -> None: ...


class _Bar:
    """A bar in a terminal, removed at the end."""

    def __init__(self, what: str, total: int) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as RichProgress
        from rich.table import Column

        # Where there is no room it is the text that is cut, not the numbers.
        columns = (
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        self._bar = RichProgress(*columns, console=Console(stderr=True), transient=True, expand=True)
        self._task = self._bar.add_task(what, total=total)

    def start(self) -> None:
        self._bar.start()

    def show(self, text: str, count: _Count) -> None:
        self._bar.update(self._task, description=text, completed=count.done)

    def stop(self) -> None:
        self._bar.stop()


class _Notebook:
    """One line under a cell, which vanishes at the end; without ipywidgets."""

    def __init__(self) -> None:
        self._shown_at = time.monotonic()
        self._handle: Any = None

    def start(self) -> None:
        pass

    def show(self, text: str, count: _Count) -> None:
        if time.monotonic() - self._shown_at < NOTEBOOK_EVERY_S:
            return
        self._write(f"{html.escape(text)}: {count.done:,} of {count.total:,}")

    def stop(self) -> None:
        if self._handle is not None:
            self._write("")

    def _write(self, line: str) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        if self._handle is None:
            self._handle = display(HTML(line), display_id=True)
        else:
            self._handle.update(HTML(line))
        self._shown_at = time.monotonic()


class _Log:
    """A line every half a minute, with the rate since the line before, or what keeps it waiting."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._done_before, self._told_at = 0, time.monotonic()

    def start(self) -> None:
        pass

    def show(self, text: str, count: _Count) -> None:
        passed_s = time.monotonic() - self._told_at
        if passed_s < LOG_EVERY_S:
            return
        if count.done == self._done_before:
            line = f"{text}: {count.done:,} of about {count.total:,}"
        else:
            rate = (count.done - self._done_before) / passed_s
            left = duration(max(0, count.total - count.done) / rate)
            pace = f"{rate:.1f}/s" if rate >= 1 else f"{1 / rate:.1f} s each"
            line = f"{self._what}: {count.done:,} of about {count.total:,}, {pace}, {left} left"
        print(line, file=sys.stderr, flush=True)
        self._done_before, self._told_at = count.done, time.monotonic()

    def stop(self) -> None:
        pass


def _display(what: str, total: int) -> _Display:
    if sys.stderr.isatty():
        return _Bar(what, total)
    return _Notebook() if _in_notebook() else _Log(what)


def _in_notebook() -> bool:
    """Whether this process is the kernel of a notebook."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython  # type: ignore[import-not-found, unused-ignore]

    return type(get_ipython()).__name__ == "ZMQInteractiveShell"
