"""Where and how the commands print, and what they say when they are interrupted."""

import logging
import shutil
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import replace
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Column, Table
from rich.text import Text

from costmodel import files
from costmodel.printable import make_printable
from costmodel.reading import exists, is_folder
from costmodel.report._page import TextTable

if TYPE_CHECKING:
    from costmodel.dataset.splits._make import Split
    from costmodel.records._candidate import Config


# A file or a pipe has no width of its own.
_PIPE_WIDTH = 140


class _PlainConsole(Console):
    """Shows every string as it is: as no markup, and printable, see ``make_printable``."""

    def render_str(self, text: str, **settings: Any) -> Text:
        return super().render_str(make_printable(text, keep_lines=True), **settings)


class _PlainRecord(logging.LogRecord):
    """What is logged, as printable text."""

    def getMessage(self) -> str:  # noqa: N802 (named by logging)
        return make_printable(super().getMessage(), keep_lines=True)


class _PlainTable(Table):
    """A cell has no line break, so that it cannot pass for a row."""

    def add_row(self, *cells: Any, **settings: Any) -> None:
        super().add_row(*(make_printable(c) if isinstance(c, str) else c for c in cells), **settings)


console = _PlainConsole(width=_PIPE_WIDTH, markup=False, emoji=False, highlight=False)


def fit_console() -> None:
    """Give the console the width that a command has: COLUMNS, else the terminal's, else a pipe's."""
    console.width = shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns


def titled_table(title: str) -> Table:
    """An empty table under its title.

    A column with ``overflow="fold"`` holds text, which is wrapped between words where there is no room, and
    also within words of more characters than its ``min_width`` where it has one.
    """
    return _PlainTable(title=title, box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)


def print_line(text: str, style: str = "") -> None:
    """Print a sentence as one line, which a terminal shows wrapped; paths and names stay whole."""
    shown = make_printable(text)
    if console.is_terminal:
        shown = fill(shown, console.width, break_long_words=False, break_on_hyphens=False)
    console.print(shown, style=style, soft_wrap=True)


def print_markdown(text: str) -> None:
    """Print a text in Markdown, as in a note of a run."""
    console.print(Markdown(make_printable(text, keep_lines=True)))


def print_error(text: str) -> None:
    """Print a sentence to stderr."""
    print(make_printable(" ".join(text.split())), file=sys.stderr)


def log_printable() -> None:
    """Let what this process logs, libraries and warnings too, be printable; see ``make_printable``."""
    logging.setLogRecordFactory(_PlainRecord)
    warnings.showwarning = _print_warning


def print_table(table: TextTable | Table) -> None:
    """Print a table under its title; one that is too wide in parts, which all begin with its first column."""
    shown = _rich_table(table) if isinstance(table, TextTable) else table
    if shown.title:
        print_line(str(shown.title), "bold")
    for part in _parts(shown):
        console.print(part)


def in_words(config: "Config") -> str:
    """Return the decisions of a config, as cells of tables show them."""
    return " ".join(f"{name}={value}" for name, value in config.decisions.items())


def print_twins(split: "Split") -> None:
    """Say which devices are held out as one."""
    for group in split.twins:
        print_line(f"Near-twins, held out together: {', '.join(group)}")


def write_json(path: Path | None, obj: Any) -> None:
    """Write an object to a file, or nothing if ``path`` is None; see ``costmodel.files.write_json``."""
    if path is not None:
        files.write_json(path, obj)


def _print_warning(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Print a warning as ``warnings.showwarning`` does."""
    print(make_printable(f"{category.__name__}: {message}", keep_lines=True), file=sys.stderr)


def _rich_table(table: TextTable) -> Table:
    """The table for a terminal; one without names of columns is of facts, each after its bold name."""
    shown = titled_table(table.title)
    shown.show_header = any(table.header)
    for name, letter in zip(table.header, table.form, strict=True):
        is_text = letter == "w"
        shown.add_column(
            name, justify="right" if letter == "r" else "left", overflow="fold" if is_text else "ellipsis"
        )
    if not shown.show_header:
        shown.columns[0].style = "bold"
    for row in table.rows:
        shown.add_row(*row)
    return shown


def _parts(table: Table) -> Iterator[Table]:
    """The table, or several that have its first column and as many of the others as there is room for."""
    first, *others = table.columns
    taken: list[Column] = []
    for column in others:
        if taken and _width(table, [first, *taken, column]) > console.width:
            yield _part(table, [first, *taken])
            taken = []
        taken.append(column)
    yield _part(table, [first, *taken])


def _part(table: Table, columns: Sequence[Column]) -> Table:
    """Some columns without the title: only text is wrapped, and nothing is ever cut."""
    fits = _width(table, columns) <= console.width
    return _with_columns(
        table,
        [replace(column, overflow="fold", no_wrap=fits and not _is_text(column)) for column in columns],
    )


def _width(table: Table, columns: Sequence[Column]) -> int:
    """Characters that columns take where text is wrapped between its words and nothing else is."""
    narrow = [replace(each, max_width=_text_width(each)) if _is_text(each) else each for each in columns]
    wide = console.options.update(width=10_000)
    return console.measure(_with_columns(table, narrow), options=wide).maximum


def _is_text(column: Column) -> bool:
    return column.overflow == "fold"


def _text_width(column: Column) -> int:
    """Characters that a column of text needs: those of its longest word, or as few as it says."""
    if column.min_width is not None:
        return column.min_width
    cells = (column.header, *column.cells)
    return max((len(word) for cell in cells for word in str(cell).split()), default=1)


def _with_columns(table: Table, columns: Sequence[Column]) -> Table:
    part = copy(table)
    part.title = None
    part.columns = [replace(column, _index=i) for i, column in enumerate(columns)]
    return part


_OUTPUTS = "costmodel.outputs"
_GO_ON = "Run the same command again: it goes on where it stopped."


@contextmanager
def resumable() -> Iterator[None]:
    """Tell whom interrupts this that the same command goes on."""
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_GO_ON) from None


def watch_output(context: typer.Context, path: Path) -> None:
    """Remember what is at a place that the command will write to; later calls for it change nothing."""
    context.meta.setdefault(_OUTPUTS, {}).setdefault(path, _state(path))


def what_is_left(context: typer.Context) -> str:
    """Which of the places that are watched the command has written to, as a sentence."""
    before = context.meta.get(_OUTPUTS, {})
    written = [str(path) for path, state in before.items() if _state(path) != state]
    return f"Written until then: {', '.join(written)}." if written else "Nothing was written."


def _state(path: Path) -> dict[Path, int]:
    """When a file, or each file directly in a folder, was changed last; half-written ones are not there."""
    there = sorted(path.iterdir()) if is_folder(path) else [path]
    return {
        each: each.lstat().st_mtime_ns
        for each in there
        if exists(each) and files.PARTIAL not in each.name and each.suffix != ".lock"
    }
