"""The command line in a process of its own, and command lines that are checked without running them."""

import shlex
import sys
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from costmodel.cli import app

MAIN = "from costmodel.cli import main; main()"


def command(*arguments: object) -> list[str]:
    """What to start for ``costmodel ARGUMENTS``."""
    return [sys.executable, "-c", MAIN, *map(str, arguments)]


def find(*arguments: str) -> tuple[Any, list[str]]:
    """The command that the arguments call, and the arguments that are left for it."""
    found: Any = get_command(app)
    rest = list(arguments)
    while isinstance(found, TyperGroup) and rest:
        _, found, rest = found.resolve_command(typer.Context(found), rest)
    return found, rest


def parse(line: str) -> None:
    """Check a command line, comments included, without running it; wrong arguments raise."""
    found, rest = find(*shlex.split(line, comments=True)[1:])
    found.make_context("costmodel", rest)
