"""JSON documents of other programs, plain or gzipped, of which nothing may be lost."""

import json
import re
from pathlib import Path
from typing import Any

from costmodel.dataset.importers._unpack import unpacked
from costmodel.errors import CostModelError

# Several times the largest public cache of Kernel Tuner. A small file can unpack to any size.
MOST_BYTES = 128 * 2**20
# The escapes of a text, from left to right; group 1 is half of a character beyond the first 65,536.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F])|.)", re.DOTALL)


def read_document(path: Path, *, most_bytes: int = MOST_BYTES) -> tuple[dict[str, Any], bool]:
    """Read a JSON object, and say whether it was closed: Kernel Tuner closes a cache when tuning ends.

    Args:
        path: The file.
        most_bytes: Refuse to unpack more.

    Raises:
        CostModelError: The file cannot be read or is no such document.
    """
    with unpacked(path, "cache") as (file, _):
        data = file.read(most_bytes + 1)
    try:
        if len(data) > most_bytes:
            raise ValueError(  # noqa: TRY301 (told below like what the parser finds)
                f"it must have at most {most_bytes:,} bytes unpacked, and this has more"
            )
        document, closed = _parse_unclosed(data.decode())
        if not isinstance(document, dict):
            raise TypeError("it must be a JSON object")  # noqa: TRY301
    except (ValueError, TypeError, RecursionError) as error:
        raise CostModelError(
            f"{path} must be a cache file of Kernel Tuner or a T4 file, but: {error}."
        ) from None
    return document, closed


def parse_json(text: str) -> Any:
    """Parse JSON in which no key stands twice and every text can be encoded.

    Raises:
        ValueError: It is not such JSON.
        RecursionError: It is nested too deeply.
    """
    if any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise ValueError("characters must not be escaped by halves")
    return json.loads(text, object_pairs_hook=_object)


def _parse_unclosed(text: str) -> tuple[Any, bool]:
    """The document, and whether it was closed; what was written until then counts."""
    try:
        return parse_json(text), True
    except json.JSONDecodeError:
        return parse_json(text.rstrip().removesuffix(",") + "}}"), False


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, of which no key may be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return found
