"""The reference of the command line, made of what Typer knows: what ``--help`` shows, as Markdown."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from costmodel.cli._app import app


def cli_reference() -> str:
    """One page: every command with its arguments, options and defaults; the same for the same code."""
    sections = [_section(names, command) for names, command in commands()]
    return "\n\n".join(["# Command line", "Each command prints this with `--help`.", *sections]) + "\n"


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command that is not a group of others, with its words."""
    root: Any = get_command(app)
    context = typer.Context(root)
    for name in root.list_commands(context):
        _, command, _ = root.resolve_command(context, [name])
        if isinstance(command, TyperGroup):
            yield from (((name, sub), command.commands[sub]) for sub in command.commands)
        else:
            yield (name,), command


def _section(names: tuple[str, ...], command: Any) -> str:
    words = " ".join(["costmodel", *names])
    context = typer.Context(command, info_name=words)
    usage = " ".join([words, *command.collect_usage_pieces(context)])
    help_text = re.sub(r":\n- ", ":\n\n- ", inspect.cleandoc(command.help or ""))
    return "\n\n".join([f"## {words}", help_text, f"```text\n{usage}\n```", _table(command.params, context)])


def _table(parameters: list[Any], context: Any) -> str:
    records = [parameter.get_help_record(context) for parameter in parameters if parameter.name != "help"]
    rows = [f"| `{name}` | {_cell(meaning)} |" for name, meaning in records]
    return "\n".join(["| argument or option | meaning |", "| --- | --- |", *rows])


def _cell(text: str) -> str:
    """One line, in which a bar ends no cell, and brackets behind others make no link."""
    return " ".join(text.split()).replace("|", "\\|").replace("][", "]\\[")
