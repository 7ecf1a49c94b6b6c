"""What the commands share: where they print, how they show progress, and the JSON that they write."""

import sys
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from costmodel.errors import CostModelError

# A file or a pipe has no width; at the default of 80 columns names would fold.
console = Console(width=None if sys.stdout.isatty() else 140)

# What learns unless told otherwise: the best without measurements of the workload, see README.md.
DEFAULT_LEARNER = "kernel-ridge"

JsonOption = Annotated[
    Path | None,
    typer.Option("--json", metavar="FILE", help="Also write the result as JSON.", show_default=False),
]
DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATASET",
        help="Dataset folder or its parquet file; the dataset that ships with costmodel if not given.",
        show_default=False,
    ),
]


def titled_table(title: str) -> Table:
    """An empty table under its title."""
    return Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


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
    partial = path.with_name(f"{path.name}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial.write_bytes(data + b"\n")
        partial.replace(path)
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error


def _to_builtin(obj: Any) -> Any:
    if isinstance(obj, np.ndarray | np.generic):
        return obj.tolist()
    if isinstance(obj, Path):
        return str(obj)
    raise NotImplementedError(f"JSON has no form for {type(obj)}")
