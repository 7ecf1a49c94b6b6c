"""The resolved configuration of a run."""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

from costmodel.tracking._items import Artifact, Parameter
from costmodel.tracking._redact import redacted


def describe_config(config: Mapping[str, Any]) -> Iterator[Parameter | Artifact]:
    """Return every option with its value, as parameters and as one file; nothing if there are none.

    Passwords in URLs are removed.

    Args:
        config: Values by name. An option without a value is ``None``. Options in nested mappings get dotted
            names.
    """
    flat = dict(_flat(config))
    yield from (Parameter(name, _text(value)) for name, value in flat.items())
    if flat:
        yield Artifact.of_text("config.json", json.dumps(flat, indent=2) + "\n")


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", _plain(value)


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, Enum):
        return _plain(value.value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return redacted(str(value)) if isinstance(value, str | Path) else value


def _text(value: Any) -> str:
    """A value as a parameter has it."""
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    return "none" if value is None else str(value)
