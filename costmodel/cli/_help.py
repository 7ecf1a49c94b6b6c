"""How help looks: the class of every command, and the panels that group the options of large commands."""

import re
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Titles of panels, the same for every command.
WHAT_TO_TUNE = "What to tune"
MEASUREMENTS = "Where measurements come from"
MODEL = "Model and history"
SEARCH = "Search"
DATASETS = "Datasets"
SPLIT = "Split"
LEARNERS = "Learners"
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
        """Its parameters, with the type and the panel that its help shows."""
        return _plain(super().get_params(ctx))

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The parts of its usage line: arguments that are required have no braces."""
        return [re.sub(r"^\{(.*)\}", r"\1", piece) for piece in super().collect_usage_pieces(ctx)]


class PlainGroup(TyperGroup):
    """A group of commands, whose help shows no type of a flag."""

    def get_params(self, ctx: Any) -> Any:
        """Its parameters, each with the type that its help shows."""
        return _plain(super().get_params(ctx))


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
    for each in params:
        if each not in options or each.is_flag:
            # What Typer prints for a type: a metavar says more, and a flag takes no value.
            each.display_type_rich = _no_type
    in_panels = [each for each in options if each.name != "help"]
    if len(in_panels) < _MANY:
        for each in options:
            each.rich_help_panel = None
    elif any(each.rich_help_panel for each in in_panels):
        # Typer shows the options without a panel first.
        for each in options:
            each.rich_help_panel = each.rich_help_panel or "Help"
    return params


def _no_type(ctx: Any) -> None:
    """No type."""
