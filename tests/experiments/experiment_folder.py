"""Modules of an experiment's folder, which others have under the same names, and how its scripts start."""

import os
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


def without_tensor_intrinsics(folder: Path) -> dict[str, str]:
    """An environment without an import of TVM that takes stock's workers 15 s and that no CPU schedule needs.

    Args:
        folder: Where what replaces it is written.
    """
    (folder / "sitecustomize.py").write_text(
        "import sys, types\nname = 'tvm.s_tir.tensor_intrin'\nsys.modules[name] = types.ModuleType(name)\n"
    )
    paths = filter(None, [str(folder), os.environ.get("PYTHONPATH")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _forget(modules: Sequence[str]) -> None:
    for name in modules:
        sys.modules.pop(name, None)
