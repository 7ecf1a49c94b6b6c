"""JSON documents of other programs, plain or gzipped, read one entry at a time."""

from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from costmodel.dataset.importers._json import JsonWindow
from costmodel.reading import MOST_TOTAL, open_unpacked, refusing

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
        """Whether it has a field of this name."""
        return name in self.fields or name in self.counts

    def entries(self, name: str) -> Iterator[tuple[str, Any]]:
        """The entries of a field that is streamed, in order, with their keys; an empty one in a list.

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
    """The parts of a document in order.

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
    """The entries of a field; returns whether the text ends behind one, which an object's may."""
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
