"""Lossless JSON: a text of it, and values read from a file one after the other.

The standard library's decoder takes each value from a window of the text. A streaming parser (yajl, which
ijson drives) changes texts that are escaped by halves, keeps one of two equal keys, and refuses NaN and
integers beyond 64 bits, all of which stand in files and have to be told.
"""

import codecs
import json
import re
from typing import Any

from costmodel.reading import Stream

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
        """The next character that is no space; empty at the end."""
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
    """A JSON object, of which no key may be lost."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("each key of an object must be unique, but one occurs twice")
    return found


_take = json.JSONDecoder(object_pairs_hook=_object).raw_decode
