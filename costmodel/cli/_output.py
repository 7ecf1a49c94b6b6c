"""What the commands share: where they print, how they show progress, and the JSON that they write."""

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from costmodel.files import write_whole

if TYPE_CHECKING:
    from costmodel.dataset import Split

T = TypeVar("T")

# A file or a pipe has no width; at the default of 80 columns names would fold.
console = Console(width=None if sys.stdout.isatty() else 140)

# What learns unless told otherwise: the best without measurements of the workload, see README.md.
DEFAULT_LEARNER = "kernel-ridge"

JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the result as JSON.", show_default=False),
]
KeepTwinsApartOption = Annotated[
    bool,
    typer.Option("--keep-twins-apart", help="Hold out each device alone, near-twins too."),
]
FoldsOption = Annotated[
    int,
    typer.Option(
        "--folds",
        metavar="K",
        help="Put what is held out into K groups, each held out as one; 0: one after the other.",
    ),
]
DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATASET",
        help="Folder or parquet file of a dataset, or the name of one that ships: h100-sm-budgets, which is "
        "taken if none is given, or sm-budgets.",
        show_default=False,
    ),
]


def titled_table(title: str) -> Table:
    """An empty table under its title."""
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def print_twins(split: "Split") -> None:
    """Say which devices are held out as one."""
    for group in split.twins:
        console.print(f"Near-twins, held out together: {', '.join(group)}", soft_wrap=True, highlight=False)


def progress() -> Progress:
    """A progress display on stderr, so that stdout stays clean for results; none where stderr is a file."""
    stderr = Console(stderr=True)
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=stderr,
        transient=True,
        disable=not stderr.is_terminal,
    )


def track(items: Iterable[T], what: str, total: int) -> Iterator[T]:
    """The items of a loop, while a display on the terminal tells which is at hand; see ``progress``."""
    with progress() as shown:
        task = shown.add_task(what, total=total)
        for item in items:
            name = item.name if isinstance(item, Path) else item if isinstance(item, str) else ""
            shown.update(task, description=f"{what} {name}".rstrip())
            yield item
            shown.advance(task)


def duration(seconds: float) -> str:
    """Readable time, such as ``1 h 05 min``."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"


class ProgressLog:
    """Prints how far long work is, a line a minute on stderr, where that is a file and shows no display.

    Args:
        what: What is counted, as in ``measured``.
        total: How many there will be, about.
        every_s: Seconds between two lines.
    """

    def __init__(self, what: str, total: int, every_s: float = 60.0) -> None:
        self._what, self._total, self._every_s = what, total, every_s
        self._done = self._done_before = 0
        self._told_at = time.monotonic()

    def advance(self) -> None:
        """Count one more."""
        self._done += 1
        passed_s = time.monotonic() - self._told_at
        if passed_s < self._every_s or sys.stderr.isatty():
            return
        rate = (self._done - self._done_before) / passed_s
        left = duration(max(0, self._total - self._done) / rate)
        print(
            f"{self._what} {self._done:,} of about {self._total:,}, {rate:.1f}/s, {left} left",
            file=sys.stderr,
            flush=True,
        )
        self._done_before, self._told_at = self._done, time.monotonic()


def write_json(path: Path | None, obj: Any) -> None:
    """Write an object to a file at once, or nothing if ``path`` is None.

    Dataclasses, msgspec structs, paths, numpy arrays and numpy numbers are understood; a number that is not
    finite becomes null.

    Raises:
        CostModelError: The file cannot be written.
    """
    if path is None:
        return
    data = msgspec.json.format(msgspec.json.encode(obj, enc_hook=_to_builtin), indent=2)
    write_whole(path, data + b"\n")


def _to_builtin(obj: Any) -> Any:
    if isinstance(obj, np.ndarray | np.generic):
        return obj.tolist()
    if isinstance(obj, Path):
        return str(obj)
    raise NotImplementedError(f"JSON has no form for {type(obj)}")
