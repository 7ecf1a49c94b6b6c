"""The folder of an experiment that was run by a script, as items."""

import json
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from costmodel.errors import CostModelError
from costmodel.tracking._config import describe_config
from costmodel.tracking._items import Artifact, Item, Metric, Note

_RESULT, _CONFIG, _README = "result.json", "config.toml", "README.md"
_PICTURES = {".png", ".svg", ".jpg", ".jpeg"}
# What names an entry of a list of results, the first that it has.
_NAMES = ("name", "learner", "method", "label")


def describe_folder(folder: Path) -> Iterator[Item]:
    """Log ``result.json`` as metrics, ``config.toml`` as parameters, and README and pictures as they are.

    A metric is named by its path in the file, with slashes. An entry of a list is named by its ``name``,
    ``learner``, ``method`` or ``label`` if it has one, else by its position. A list of numbers is a curve.

    Raises:
        CostModelError: If the folder has no ``result.json``, or one of its files cannot be read.
    """
    if not (folder / _RESULT).is_file():
        raise CostModelError(
            f"The folder of an experiment must hold {_RESULT}, but {folder} does not. "
            "Run the experiment first."
        )
    yield from _scalars(_read(folder / _RESULT))
    if (folder / _CONFIG).is_file():
        yield from describe_config(_read(folder / _CONFIG))
    if (folder / _README).is_file():
        yield Note((folder / _README).read_text(encoding="utf-8"))
    for file in sorted(folder.iterdir()):
        if file.name in (_RESULT, _CONFIG, _README) or file.suffix in _PICTURES:
            yield Artifact.copy_of(file.name, file)


def _read(file: Path) -> Any:
    try:
        text = file.read_text(encoding="utf-8")
        return tomllib.loads(text) if file.suffix == ".toml" else json.loads(text)
    except (ValueError, OSError) as error:
        form = file.suffix.removeprefix(".").upper()
        raise CostModelError(f"{file} must be a {form} file, but cannot be read: {error}.") from error


def _scalars(value: Any, path: tuple[str, ...] = ()) -> Iterator[Metric]:
    """Every number below a value; truth values and texts are not measured."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield Metric("/".join(path) or "result", float(value))
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _scalars(item, (*path, str(name)))
    elif isinstance(value, list) and all(isinstance(item, int | float) for item in value):
        yield from (Metric("/".join(path) or "result", float(item), i) for i, item in enumerate(value))
    elif isinstance(value, list):
        names = _entry_names(value)
        for name, item in zip(names, value, strict=True):
            yield from _scalars(item, (*path, name))


def _entry_names(entries: list[Any]) -> list[str]:
    """A distinct name for each entry: what it says itself, else its position."""
    for key in _NAMES:
        said = [str(entry[key]) for entry in entries if isinstance(entry, dict) and key in entry]
        if len(set(said)) == len(entries):
            return said
    return [str(i) for i in range(len(entries))]
