"""The command line in a process of its own, and command lines that are checked without running them."""

import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from fcntl import ioctl
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from costmodel.cli._app import app

# What makes a terminal bold or coloured.
_STYLES = re.compile(r"\x1b\[[0-9;]*m")
MAIN = "from costmodel.cli import main; main()"


def command(*arguments: object) -> list[str]:
    """What to start for ``costmodel ARGUMENTS``."""
    return [sys.executable, "-c", MAIN, *map(str, arguments)]


def find(*arguments: str) -> tuple[Any, list[str]]:
    """The command that the arguments call, and the arguments that are left for it."""
    found: Any = get_command(app)
    rest = list(arguments)
    while isinstance(found, TyperGroup) and rest and not rest[0].startswith("-"):
        _, found, rest = found.resolve_command(typer.Context(found), rest)
    return found, rest


def commands(*path: str) -> list[tuple[str, ...]]:
    """The arguments that call each command, groups of commands among them."""
    found, _ = find(*path)
    below = found.commands if isinstance(found, TyperGroup) else ()
    return [path, *(each for name in below for each in commands(*path, name))]


def in_terminal(width: int, *arguments: object) -> list[str]:
    """The lines that ``costmodel ARGUMENTS`` prints to a terminal that is so many columns wide."""
    ours, its = pty.openpty()
    ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 50, width, 0, 0))
    unset = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    with subprocess.Popen(
        command(*arguments), stdin=its, stdout=its, stderr=subprocess.DEVNULL, env={**unset, "TERM": "xterm"}
    ):
        os.close(its)
        with os.fdopen(ours, "rb") as screen:
            return _STYLES.sub("", _until_closed(screen).decode()).splitlines()


def _until_closed(screen: Any) -> bytes:
    read = b""
    try:
        while part := screen.read1():
            read += part
    except OSError:  # Linux says so where the other side is closed
        pass
    return read


def parse(line: str) -> None:
    """Check a command line, comments included, without running it; wrong arguments raise."""
    found, rest = find(*shlex.split(line, comments=True)[1:])
    found.make_context("costmodel", rest)
