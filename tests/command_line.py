"""The command line in a process of its own."""

import sys

MAIN = "from costmodel.cli import main; main()"


def command(*arguments: object) -> list[str]:
    """What to start for ``costmodel ARGUMENTS``."""
    return [sys.executable, "-c", MAIN, *map(str, arguments)]
