"""JSON documents, and rows of CSV, of other programs: plain or gzipped, read one entry at a time.

The standard library's decoder takes each value from a window of the text. A streaming parser (yajl, which
ijson drives) changes texts that are escaped by halves, keeps one of two equal keys, and refuses NaN and
integers beyond 64 bits, all of which stand in files and have to be told.
"""

import codecs
import csv
import json
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.dataset.sources._entry import EntryError
from costmodel.errors import CostModelError
from costmodel.opening import Stream, open_unpacked
from costmodel.reading import MOST_TOTAL, read_lines, refusing

_CHUNK = 2**20
_MOST_VALUE = 64 * 2**20  # characters of one value
_SPACE = re.compile(r"[ \t\n\r]*")
# The escapes of a text, from left to right; group 1 is half of a character beyond the first 65,536.
_ESCAPE = re.compile(r"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|u([dD][89a-fA-F])|.)", re.DOTALL)


def parse_json(text: str) -> Any:
    """Parse JSON in which no key stands twice and every text can be encoded.

    Raises:
        ValueError: It is not such JSON.
        RecursionError: It is nested too deeply.
    """
    _check_escapes(text)
    return json.loads(text, object_pairs_hook=_object)


class JsonWindow:
    """The text of a file, from which JSON is taken, as much of it at a time as it takes.

    Args:
        file: The file.
        most_bytes: Refuse to read more.
    """

    def __init__(self, file: Stream, most_bytes: int) -> None:
        self._file, self._left = file, most_bytes
        self._most_bytes = most_bytes
        self._decode = codecs.getincrementaldecoder("utf-8")().decode
        self._text, self._at, self._before = "", 0, 0
        self._is_all = False

    @property
    def position(self) -> int:
        """Characters taken so far."""
        return self._before + self._at

    def peek(self) -> str:
        """Return the next character that is no space; empty at the end."""
        while True:
            found = _SPACE.match(self._text, self._at)
            assert found
            self._at = found.end()
            if self._at < len(self._text) or self._is_all:
                return self._text[self._at : self._at + 1]
            self._read(_CHUNK)

    def take(self, character: str) -> bool:
        """Take the next character if it is this one; whether it was."""
        is_it = self.peek() == character
        self._at += is_it
        return is_it

    def expect(self, character: str) -> None:
        """Take the next character.

        Raises:
            ValueError: It is another.
        """
        if not self.take(character):
            raise ValueError(f"character {self.position:,} must be {character}, but is {self.peek()!r}")

    def key(self) -> str:
        """Take the key of an object, and the colon behind it.

        Raises:
            ValueError: There is none.
        """
        key = self.value()
        if not isinstance(key, str):
            raise ValueError(f"a key must precede character {self.position:,}")  # noqa: TRY004 (as others)
        self.expect(":")
        return key

    def value(self) -> Any:
        """Take a value.

        Raises:
            ValueError: There is none, or it is too long.
            RecursionError: It is nested too deeply.
        """
        self.peek()
        while True:
            try:
                value, end = _take(self._text, self._at)
                if end < len(self._text) or self._is_all:  # a number at the end of the window may go on
                    break
            except json.JSONDecodeError as error:
                if self._is_all:
                    raise ValueError(f"{error.msg} at character {self._before + error.pos:,}") from None
            if len(self._text) - self._at > _MOST_VALUE:
                raise ValueError(f"a value must have at most {_MOST_VALUE:,} characters, but one has more")
            self._read(max(_CHUNK, len(self._text) - self._at))
        _check_escapes(self._text[self._at : end])
        self._at = end
        return value

    def _read(self, size: int) -> None:
        """Move the window on: what was taken leaves it."""
        data = self._file.read(min(size, self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise ValueError(f"it must have at most {self._most_bytes:,} bytes unpacked, but has more")
        self._is_all = not data
        self._before += self._at
        self._text, self._at = self._text[self._at :] + self._decode(data, self._is_all), 0


def _check_escapes(text: str) -> None:
    if any(escape[1] for escape in _ESCAPE.finditer(text)):
        raise ValueError("surrogate escapes must come in pairs")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object, of which no key may be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("each key of an object must be unique, but one occurs twice")
    return found


_take = json.JSONDecoder(object_pairs_hook=_object).raw_decode


# Fields whose entries are read one at a time, and how these are held together.
_STREAMED = {
    **{"cache": "{", "results": "["},
    **{"Results": "[", "benchmarks": "[", "configs_timings": "["},
}
_CLOSING = {"{": "}", "[": "]"}


@dataclass(frozen=True)
class Document:
    """A JSON object whose large fields stay on disk.

    Attributes:
        path: The file.
        what: What it must be, with an article.
        fields: Its other fields.
        counts: By name of a field that is streamed (an object ``cache``, a list ``results``), its entries.
        closed: Whether the object was closed: Kernel Tuner closes a cache when tuning ends.
    """

    path: Path
    what: str
    fields: Mapping[str, Any]
    counts: Mapping[str, int]
    closed: bool

    @classmethod
    def open(cls, path: Path, what: str, *, most_bytes: int = MOST_TOTAL) -> "Document":
        """Read all of it once, to know that it can be read.

        Args:
            path: The file.
            what: What it must be, with an article.
            most_bytes: Refuse to unpack more.

        Raises:
            CostModelError: The file cannot be read or is no such document.
        """
        fields: dict[str, Any] = {}
        counts: dict[str, int] = {}
        keys: set[int] = set()
        closed = True
        with refusing(path, what, form="json"):
            for part in _parts_of(path, what, most_bytes):
                match part:
                    case _Field(name, value):
                        _check_new(name, fields.keys() | counts.keys())
                        fields[name] = value
                    case _Begin(name):
                        _check_new(name, fields.keys() | counts.keys())
                        counts[name] = 0
                        keys.clear()
                    case _Entry(name, key, _):
                        if key is not None:
                            _check_new(hash(key), keys)
                            keys.add(hash(key))
                        counts[name] += 1
                    case _Unclosed():
                        closed = False
        return cls(path, what, fields, counts, closed)

    def __contains__(self, name: str) -> bool:
        """Tell whether it has a field of this name."""
        return name in self.fields or name in self.counts

    def entries(self, name: str) -> Iterator[tuple[str, Any]]:
        """Yield the entries of a field that is streamed, in order, with their keys; an empty one in a list.

        Raises:
            CostModelError: The file cannot be read any more.
        """
        for part in _parts_of(self.path, self.what, MOST_TOTAL):
            if isinstance(part, _Entry) and part.name == name:
                yield part.key or "", part.value


class _Field(NamedTuple):
    """A field that is read whole."""

    name: str
    value: Any


class _Begin(NamedTuple):
    """A field whose entries follow."""

    name: str


class _Entry(NamedTuple):
    """An entry of a field; of a list it has no key."""

    name: str
    key: str | None
    value: Any


class _Unclosed(NamedTuple):
    """The end of a document that ends behind an entry."""


_Part = _Field | _Begin | _Entry | _Unclosed


def _parts_of(path: Path, what: str, most_bytes: int) -> Iterator[_Part]:
    with refusing(path, what, form="json"), open_unpacked(path) as (file, _):
        yield from _parts(JsonWindow(file, most_bytes))


def _parts(text: JsonWindow) -> Iterator[_Part]:
    """Yield the parts of a document in order.

    Raises:
        ValueError: It is no JSON object.
    """
    text.expect("{")
    more = not text.take("}")
    while more:
        name = text.key()
        if text.peek() == _STREAMED.get(name):
            yield _Begin(name)
            is_open = yield from _entries(text, name)
            if is_open:
                yield _Unclosed()
                return
        else:
            yield _Field(name, text.value())
        more = text.take(",")
        if not more:
            text.expect("}")
    if text.peek():
        raise ValueError(f"nothing may follow it, but something does at character {text.position:,}")


def _entries(text: JsonWindow, name: str) -> Generator[_Entry, None, bool]:
    """Yield the entries of a field; returns whether the text ends behind one, which an object's may."""
    opening = _STREAMED[name]
    text.expect(opening)
    more = not text.take(_CLOSING[opening])
    while more:
        if opening == "{" and not text.peek():
            return True
        yield _Entry(name, text.key() if opening == "{" else None, text.value())
        more = text.take(",") or (opening == "{" and not text.peek())
        if not more:
            text.expect(_CLOSING[opening])
    return False


def _check_new(key: Any, known: Any) -> None:
    if key in known:
        raise ValueError("each key of an object must be unique, but one occurs twice")


class CsvRow(NamedTuple):
    """A row of cells.

    Attributes:
        number: Line of the file, from 1.
        cells: Its cells in order.
        header: Names of the columns, in the same order.
    """

    number: int
    cells: Sequence[str]
    header: Sequence[str]

    def by_name(self) -> Mapping[str, str]:
        """Return each cell by the name of its column; of columns of one name, the first.

        Raises:
            EntryError: There are more or fewer cells than columns.
        """
        if len(self.cells) != len(self.header):
            raise EntryError("a row must have as many cells as the header")
        pairs = zip(reversed(self.header), reversed(self.cells), strict=True)
        return {name: cell.strip() for name, cell in pairs}


def read_csv_rows(
    path: Path, what: str, is_header: Callable[[Sequence[str]], bool], *, chatter: str = "\0"
) -> Iterator[CsvRow]:
    """Read the rows behind each header; whatever precedes the first is passed over.

    Each line is read alone, so that a quote in what a program prints swallows no rows.

    Args:
        path: The file, which may be gzipped.
        what: What it must be, for messages.
        is_header: Whether cells are the names of columns.
        chatter: How lines begin that are no rows.

    Raises:
        CostModelError: The file cannot be read, or has no header.
    """
    header: Sequence[str] = ()
    for number, line in read_lines(path, what):
        text = line.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace").replace("\0", "\ufffd")
        if text.startswith(chatter):
            continue
        with refusing(f"{path}, line {number}", what):
            cells = next(csv.reader([text]), [])
        if is_header(cells):
            header = [cell.strip() for cell in cells]
        elif header:
            yield CsvRow(number, cells, header)
    if not header:
        raise CostModelError(f"{path} must be {what}, but has no line with the names of its columns.")
