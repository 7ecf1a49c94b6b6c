"""Options and arguments that commands share, and how their values are checked before anything runs."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from costmodel.cli._help import OUTPUT, SPLIT, WHAT_IF
from costmodel.cli._interrupt import watch_output
from costmodel.files import check_picture, check_writable

# The largest number of anything that is counted, so that a slip of the finger is refused at once.
_MOST = 1_000_000
# Every library that draws at random takes these.
_LARGEST_SEED = 2**32 - 1


def output_option(*names: str, metavar: str = "FILE", **settings: Any) -> Any:
    """An option that names a file to write; that it can be is checked before the command begins.

    Args:
        names: Of the option; that of the parameter if none.
        metavar: ``DIR`` for a folder; ``PATH`` for a file or a folder; ``FILE.png`` for a picture,
            whose format its ending says.
        settings: As of ``typer.Option``.
    """

    def check(context: typer.Context, path: Path | None) -> Path | None:
        if path is not None and metavar == "FILE.png":
            check_picture(path)
        if path is not None:
            check_writable(path, folder=metavar == "DIR" or (metavar == "PATH" and path.is_dir()))
            watch_output(context, path)
        return path

    return typer.Option(*names, metavar=metavar, callback=check, **settings)


def number_option(must: str, holds: Callable[[Any], bool], *names: str, **settings: Any) -> Any:
    """An option that takes a number.

    Args:
        must: What it must be, as a message says it.
        holds: Whether a number is.
        names: Of the option; that of the parameter if none.
        settings: As of ``typer.Option``.
    """

    def check(number: float | None) -> float | None:
        if number is not None and not holds(number):
            raise typer.BadParameter(f"It must be {must}, but got {number}.")
        return number

    return typer.Option(*names, callback=check, **settings)


def count_option(*names: str, least: int = 1, most: int = _MOST, metavar: str = "N", **settings: Any) -> Any:
    """An option that says how many, from ``least`` to ``most``; see ``number_option``."""
    must = f"a whole number from {least} to {most:,}"
    return number_option(must, lambda n: least <= n <= most, *names, metavar=metavar, **settings)


def seed_option(text: str, **settings: Any) -> Any:
    """An option that takes a seed; ``text`` is its help, ``settings`` are as of ``typer.Option``."""
    return count_option(least=0, most=_LARGEST_SEED, help=text, **settings)


def folds_option(text: str) -> Any:
    """An option that takes a number of folds, of which there cannot be one; ``text`` is its help."""
    must = f"0 or a whole number from 2 to {_MOST:,}"
    return number_option(
        must,
        lambda folds: folds == 0 or 2 <= folds <= _MOST,
        "--folds",
        metavar="K",
        help=text,
        rich_help_panel=SPLIT,
    )


def said(context: typer.Context) -> set[str]:
    """Names of the parameters that the command line says itself, and not by their defaults."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return {name for name, source in sources.items() if source and source.name == "COMMANDLINE"}


def dims_of(text: str | None) -> dict[str, int]:
    """Sizes by dimension of ``--dims``, such as ``m=64,n=64``; none for None.

    Raises:
        BadParameter: A part is not a letter and a positive whole number, or a letter stands twice.
    """
    parts = text.split(",") if text else []
    found = [re.fullmatch(r"\s*([a-z])=([1-9][0-9]*)\s*", part) for part in parts]
    dims = {match[1]: int(match[2]) for match in found if match}
    if len(dims) < len(parts):
        raise typer.BadParameter(
            f"It must be sizes such as m=64,n=64, but got {text}.", param_hint="'--dims'"
        )
    return dims


SweepOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=FIRST:LAST:STEP",
        help="Predict for hypothetical devices over a range of one property, such as sms=64:256:16 or "
        "bandwidth=2000:8000:1000 (GB/s). Others: clock (MHz), l2_bytes, tensor_flops_per_sm_clock and more. "
        "If given twice, each value of the second is a line.",
        show_default=False,
        rich_help_panel=WHAT_IF,
    ),
]
JsonOption = Annotated[
    Path | None,
    output_option(
        "--json",
        help="Also write the result to this file as JSON.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]
KeepTwinsApartOption = Annotated[
    bool,
    typer.Option(
        "--keep-twins-apart",
        help="Hold out each device alone, even if it has near-twins.",
        rich_help_panel=SPLIT,
    ),
]
FoldsOption = Annotated[
    int, folds_option("Number of groups to hold out, each as a whole; 0 holds out items one at a time.")
]
# Shipped datasets other than h100-sm-budgets, for help texts.
OTHER_DATASETS = "sm-budgets, cuda-sm-budgets, triton-sm-budgets, sparse-sm-budgets or wide-sm-budgets"
DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATASET",
        help="Folder or Parquet file of a dataset, or the name of a shipped one: h100-sm-budgets, "
        f"{OTHER_DATASETS}. Default: h100-sm-budgets.",
        show_default=False,
    ),
]
