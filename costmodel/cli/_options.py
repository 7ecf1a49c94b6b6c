"""Options that commands share: how they are declared, completed and read, and the panels of their help."""

import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from costmodel.cli._output import watch_output
from costmodel.errors import CostModelError
from costmodel.files import check_picture, check_writable, is_stream
from costmodel.reading import is_file, is_folder

if TYPE_CHECKING:
    from costmodel.collector.runners._service_watch import ServiceReport, ServiceWatch
    from costmodel.tuning._places import Place


# Titles of panels, the same for every command.
WHAT_TO_TUNE = "What to tune"
MEASUREMENTS = "Where measurements come from"
MODEL = "Model and history"
SEARCH = "Search"
DATASETS = "Datasets"
SPLIT = "Split"
LEARNERS = "Learners"
TABLES = "Tables"
TRACE = "Trace"
WHAT_IF = "What if"
MACHINES = "Machines"
WORK = "Tuning work"
RANDOM = "Options of random and few-shot splits"
OUTPUT = "Output"
TRACKING = "Tracking"
# A command with fewer options than this shows all of them in one panel.
_MANY = 10


class PlainCommand(TyperCommand):
    """Its help shows ``WORKLOAD`` instead of ``{WORKLOAD} <str>``, and no ``<bool>`` for flags."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, with the type, the default and the panel that its help shows."""
        return _plain(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of its usage line: arguments that are required have no braces."""
        return [re.sub(r"^\{(.*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]

    def invoke(self, ctx: Any) -> Any:
        """Run it, unless a file that it would write is named a second time."""
        _check_named_once(ctx)
        return super().invoke(ctx)


class PlainGroup(TyperGroup):
    """A group of commands, whose help shows no type of a flag."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, each with the type that its help shows."""
        return _plain(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:
        """Run it, unless a file that it would write is named a second time."""
        _check_named_once(ctx)
        return super().invoke(ctx)


class CommandGroup(typer.Typer):
    """A group of commands, such as ``costmodel dataset``."""

    def __init__(self) -> None:
        super().__init__(
            cls=PlainGroup, add_completion=False, no_args_is_help=True, rich_markup_mode="markdown"
        )

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """As ``typer.Typer.command``, for a command whose help is plain."""
        return super().command(name, cls=PlainCommand, **settings)


def _plain(params: Any) -> Any:
    options = [each for each in params if each.param_type_name == "option"]
    for each in options:
        if isinstance(each.show_default, str):  # a default in words stands in the sentences, as elsewhere
            each.help = f"{each.help} Default: {each.show_default}."
            each.show_default = False
    for each in params:
        if each not in options or each.is_flag:
            # What Typer prints for a type: a metavar says more, and a flag takes no value.
            each.display_type_rich = _no_type
    in_panels = [each for each in options if each.name != "help"]
    if len(in_panels) < _MANY:
        for each in options:
            each.rich_help_panel = None
    elif any(each.rich_help_panel for each in in_panels):
        # Typer shows the options without a panel first, among which this one would be.
        for each in options:
            each.rich_help_panel = "Help" if each.name == "help" else each.rich_help_panel
    return params


def _no_type(ctx: Any) -> None:
    """No type."""


# Where a call keeps the options that name files to write, by their parameters.
_WRITTEN = "costmodel.written"


def _check_named_once(context: typer.Context) -> None:
    """Check that no file to write is also read, or written by another option: one of the two would be lost.

    Raises:
        CostModelError: One is.
    """
    for name, option in context.meta.get(_WRITTEN, {}).items():
        path = context.params[name]
        others = [value for other, value in context.params.items() if other != name]
        if not is_stream(path) and any(_is_named(path, value) for value in others):
            raise CostModelError(f"{path} would be lost, as {option} writes over it: name another file.")


def _is_named(path: Path, value: Any) -> bool:
    """Whether the value of a parameter, or one of several, is this file."""
    if isinstance(value, list | tuple):
        return any(_is_named(path, each) for each in value)
    names_file = isinstance(value, Path) or (isinstance(value, str) and is_file(Path(value)))
    return names_file and os.path.realpath(value) == os.path.realpath(path)


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

    def check(context: typer.Context, param: typer.CallbackParam, path: Path | None) -> Path | None:
        if path is not None and metavar == "FILE.png":
            check_picture(path)
        if path is not None:
            folder = metavar == "DIR" or (metavar == "PATH" and is_folder(path))
            check_writable(path, folder=folder)
            watch_output(context, path)
            if not folder:
                context.meta.setdefault(_WRITTEN, {})[param.name] = param.opts[0]
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
    return typer.Option(*names, callback=number_check(must, holds), **settings)


def number_check(must: str, holds: Callable[[Any], bool]) -> Callable[[float | None], float | None]:
    """A callback of an option or argument that takes a number; see ``number_option``."""

    def check(number: float | None) -> float | None:
        if number is not None and not holds(number):
            raise typer.BadParameter(f"It must be {must}, but got {number}.")
        return number

    return check


def whole_of(text: str) -> int:
    """Return the whole number that a text is; 0 if it is none, or has more digits than Python reads."""
    try:
        return int(text) if text.strip().isdecimal() else 0
    except ValueError:
        return 0


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
OTHER_DATASETS = (
    "sm-budgets, cuda-sm-budgets, triton-sm-budgets, sparse-sm-budgets, wide-sm-budgets, sampled-sm-budgets, "
    "kernels-at-large, serving-sm-budgets or inductor-sm-budgets"
)
DatasetArgument = Annotated[
    Path | None,
    typer.Argument(
        metavar="DATASET",
        help="Folder or Parquet file of a dataset, or the name of a shipped one: h100-sm-budgets, "
        f"{OTHER_DATASETS}. Default: h100-sm-budgets.",
        show_default=False,
    ),
]


def complete_learner(incomplete: str) -> list[str]:
    """Names of learners."""
    from costmodel.learners._registry import learner_names

    return [name for name in learner_names() if name.startswith(incomplete)]


def complete_split(incomplete: str) -> list[str]:
    """Strategies by which a dataset is split."""
    from costmodel.dataset.splits._make import STRATEGIES

    return [name for name in STRATEGIES if name.startswith(incomplete)]


def complete_workload(incomplete: str) -> list[str]:
    """Names of the catalogue's workloads."""
    from costmodel.workloads._catalogue import catalogue

    return [entry.workload.name for entry in catalogue() if entry.workload.name.startswith(incomplete)]


def share_of(option: str, text: str | None) -> float | None:
    """A share such as ``1%`` or ``0.01``; None for None.

    Raises:
        CostModelError: It is none, or not between 0 and 1.
    """
    if text is None:
        return None
    number, percent, rest = text.partition("%")
    with suppress(ValueError):
        share = float(number) / (100.0 if percent else 1.0)
        if not rest and 0.0 < share < 1.0:
            return share
    raise CostModelError(f"{option} must be a share above 0 and below 1, such as 1%, but got {text!r}.")


def numbers_of(option: str, text: str | None) -> tuple[float, ...]:
    """Positive numbers such as ``16,32,132``; none for None.

    Raises:
        CostModelError: A part is no positive number.
    """
    if text is None:
        return ()
    with suppress(ValueError):
        numbers = tuple(float(part) for part in text.split(","))
        if all(0.0 < number < float("inf") for number in numbers):
            return numbers
    raise CostModelError(f"{option} must be positive numbers such as 16,32,132, but got {text!r}.")


def budgets_of(text: str | None) -> tuple[int, ...]:
    """SM budgets, in the order given.

    Raises:
        CostModelError: One is no positive whole number, or stands twice.
    """
    budgets = tuple(int(number) for number in numbers_of("--sms", text))
    if budgets != numbers_of("--sms", text) or len(set(budgets)) < len(budgets):
        raise CostModelError(f"--sms must be distinct whole numbers such as 16,32,132, but got {text!r}.")
    return budgets


def names_of(text: str | None) -> tuple[str, ...] | None:
    """Names such as ``cuda,library``; None for None."""
    return None if text is None else tuple(part.strip() for part in text.split(","))


def service_watch_of(beside: Path | None, may_lose: str | None) -> "ServiceWatch | None":
    """The watch of a service by the file of its latencies and what its p99 may rise by; None for no file.

    Raises:
        CostModelError: The share is none, or there is no service that it is of.
    """
    share = share_of("--may-lose", may_lose)
    if beside is None:
        if share is not None:
            raise CostModelError("--may-lose must be what a service may lose: name its file with --beside.")
        return None
    from costmodel.collector.runners._service_watch import ServiceWatch

    return ServiceWatch(beside) if share is None else ServiceWatch(beside, may_lose=share)


def place_of(
    runner: str,
    replay: str | None,
    device: str | None,
    watch: "ServiceWatch | None",
    on_end: "Callable[[ServiceReport], None]",
) -> "Place":
    """The place to measure that the options name; ``on_end`` is told how a watched service fared.

    Raises:
        CostModelError: A runner is named beside records to replay.
    """
    from costmodel.tuning._places import Beside, Replay, find_place

    if runner == "replay":
        place: Place = Replay(replay, device)
    elif replay is not None or device is not None:
        raise CostModelError(
            f"Records to replay, and the device that they are of, must be named without a runner, but got "
            f"{runner}. Leave one of them out."
        )
    else:
        place = find_place(runner)
    return Beside(place, watch, on_end) if watch else place
