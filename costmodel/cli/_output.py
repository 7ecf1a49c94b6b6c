"""What the commands share: where and how they print, and the files that they write."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Column, Table

from costmodel import files
from costmodel.files import check_picture, check_writable

if TYPE_CHECKING:
    from costmodel.dataset import Split

# A file or a pipe has no width; at the default of 80 columns names would fold.
console = Console(width=None if sys.stdout.isatty() else 140)


def output_option(*names: str, metavar: str = "FILE", **settings: Any) -> Any:
    """An option that names a file to write; that it can be is checked before the command begins.

    Args:
        names: Of the option; that of the parameter if none.
        metavar: ``DIR`` for a folder; ``FILE.png`` for a picture, whose format its ending says.
        settings: As of ``typer.Option``.
    """

    def check(path: Path | None) -> Path | None:
        if path is not None and metavar == "FILE.png":
            check_picture(path)
        if path is not None:
            check_writable(path, folder=metavar == "DIR")
        return path

    return typer.Option(*names, metavar=metavar, callback=check, **settings)


JsonOption = Annotated[
    Path | None,
    output_option("--json", help="Also write the result as JSON.", show_default=False),
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


@contextmanager
def resumable() -> Iterator[None]:
    """Tell whom interrupts this that the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("Run the same command again: it goes on where it stopped.") from None


def print_table(table: Table) -> None:
    """Print a table; one that is wider than the terminal in parts, which all begin with its first column."""
    for part in _parts(table):
        console.print(part)


def print_twins(split: "Split") -> None:
    """Say which devices are held out as one."""
    for group in split.twins:
        console.print(f"Near-twins, held out together: {', '.join(group)}", soft_wrap=True, highlight=False)


def write_json(path: Path | None, obj: Any) -> None:
    """Write an object to a file, or nothing if ``path`` is None; see ``costmodel.files.write_json``."""
    if path is not None:
        files.write_json(path, obj)


def _parts(table: Table) -> Iterator[Table]:
    """The table, or several that have its first column and as many of the others as there is room for."""
    taken: list[Column] = []
    for column in table.columns[1:]:
        if taken and _width(_with_columns(table, [*taken, column])) > console.width:
            yield _with_columns(table, taken)
            table, taken = copy(table), []
            table.title = None
        taken.append(column)
    yield _with_columns(table, taken)


def _with_columns(table: Table, columns: Sequence[Column]) -> Table:
    part = copy(table)
    part.columns = [replace(column, _index=i) for i, column in enumerate([table.columns[0], *columns])]
    return part


def _width(table: Table) -> int:
    """Characters that a table takes where nothing is folded; its title may be."""
    untitled = copy(table)
    untitled.title = None
    return console.measure(untitled, options=console.options.update(width=1000)).maximum
