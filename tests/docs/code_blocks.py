"""The code blocks of the documents, and what is said of them in the HTML comments before them.

A block of ``sh`` or ``python`` is run by ``make test-docs``: the blocks of a page one after the other, in a
folder that holds ``configs`` and ``datasets`` at first. A comment before a block says why it is not run, or
some of its lines, those that begin with a text in backticks::

    <!-- test: needs gpu -->
    <!-- test: long `make test` `make check` -->

What is not run is still parsed: commands and their options must exist, Python must compile and find what it
imports.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[2]
REASONS = (
    "needs gpu",
    "needs files",  # that the reader has, or downloads
    "needs workers",  # of Dask, and machines for them
    "needs install",  # changes what is installed
    "long",  # minutes
    "fragment",  # of a program of the reader's
)
_MARK = re.compile(r"<!-- test: (.*?) -->")
_WORDS = re.compile(rf"({'|'.join(REASONS)})((?: `[^`]+`)*)")


@dataclass(frozen=True)
class CodeBlock:
    """One fenced block.

    Attributes:
        path: The document.
        line: Number of its first line.
        language: What stands behind the fence.
        text: Its lines.
        not_run: Beginnings of lines that are not run; an empty one for all.
    """

    path: Path
    line: int
    language: str
    text: str
    not_run: tuple[str, ...]

    @property
    def place(self) -> str:
        """Where it is, for messages."""
        return f"{self.path.relative_to(ROOT)}:{self.line}"

    @property
    def lines(self) -> list[str]:
        """Its lines, with those that go on behind a backslash joined."""
        return self.text.replace("\\\n", " ").splitlines()

    @property
    def to_run(self) -> str:
        """What is run of it; nothing if a comment exempts all."""
        return "\n".join(line for line in self.lines if not line.startswith(self.not_run or ("\0",)))


def documents() -> list[Path]:
    """The documents whose blocks are checked: those that are written by hand for users and contributors."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def tokens(path: Path) -> list[Token]:
    """A document as Markdown."""
    return MarkdownIt("commonmark").enable("table").parse(path.read_text(encoding="utf-8"))


def code_blocks(path: Path) -> Iterator[CodeBlock]:
    """The fenced blocks of a document, in order.

    Raises:
        ValueError: A comment gives a reason that there is not, or stands before no block.
    """
    comment = ""
    for token in tokens(path):
        if token.type == "html_block" and "<!-- test:" in token.content:
            comment += token.content
            continue
        if comment and token.type != "fence":
            raise ValueError(f"{path}: a comment for tests stands before no block: {comment}")
        if token.type == "fence" and token.map:
            yield CodeBlock(path, token.map[0] + 1, token.info.strip(), token.content, _not_run(comment))
        comment = ""


def command_lines(block: CodeBlock) -> Iterator[str]:
    """The calls of ``costmodel`` in a block; none in what is printed."""
    for line in block.lines if block.language != "text" else []:
        if found := re.match(r"(?:\$ )?(?:\S*/)?(costmodel .*)$", line):
            yield found[1].removesuffix(" &")


def inline_code(path: Path) -> Iterator[str]:
    """Code within the text of a document."""
    for token in tokens(path):
        yield from (child.content for child in token.children or [] if child.type == "code_inline")


def _not_run(comment: str) -> tuple[str, ...]:
    beginnings: list[str] = []
    for mark in _MARK.findall(comment):
        words = _WORDS.fullmatch(mark)
        if not words:
            raise ValueError(f"A comment for tests must say one of {', '.join(REASONS)}, but got {mark!r}")
        beginnings += re.findall(r"`([^`]+)`", words[2]) or [""]
    return tuple(beginnings)
