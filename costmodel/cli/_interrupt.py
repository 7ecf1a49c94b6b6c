"""What is left of a command that was interrupted."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

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
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return {
        each: each.lstat().st_mtime_ns
        for each in files
        if each.exists() and not each.name.endswith((".partial", ".lock"))
    }
