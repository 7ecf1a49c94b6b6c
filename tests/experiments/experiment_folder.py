"""Modules of an experiment's folder, which other experiments have under the same names."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def found_beside(folder: Path, modules: Sequence[str]) -> Iterator[None]:
    """In this context, modules of these names are those of a folder, and of the one that holds it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", [str(folder), str(folder.parent), *sys.path])
        _forget(modules)
        yield
        _forget(modules)


def _forget(modules: Sequence[str]) -> None:
    for name in modules:
        sys.modules.pop(name, None)
