"""The command line: ``costmodel COMMAND``, one module a command.

A command's module is imported when the command is called, so that ``costmodel --help`` answers at once.
"""

from costmodel.cli._app import app, main

__all__ = ["app", "main"]
