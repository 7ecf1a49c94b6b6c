"""Tell what was found: tables for README.md and the terminal, and numbers for result.json."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def markdown_table(header: Sequence[Any], rows: Iterable[Sequence[Any]], texts: int = 1) -> str:
    """Return a table in Markdown.

    Args:
        header: Names of the columns.
        rows: Cells, one for each column; what is no text is shown by ``str``.
        texts: How many of the first columns hold texts. The others hold numbers, aligned to the right.
    """
    rulers = ["---"] * texts + ["---:"] * (len(header) - texts)
    return "\n".join(f"| {' | '.join(map(str, cells))} |" for cells in (header, rulers, *rows))


def rounded(value: Any, digits: int = 5) -> Any:
    """Round all numbers in lists and mappings, for a file that people compare."""
    if isinstance(value, Mapping):
        return {str(name): rounded(each, digits) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each, digits) for each in value]
    return round(float(value), digits) if isinstance(value, float) else value


def say(text: str) -> None:
    """Tell how far a script is, beside what it prints."""
    print(text, file=sys.stderr, flush=True)
