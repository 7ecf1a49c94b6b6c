"""UBJSON as XGBoost writes it, read without trust: what is not exactly that raises ValueError."""

from typing import Any

import numpy as np

# Types of numbers: what NumPy calls them, most significant byte first.
_NUMBERS = {b"i": ">i1", b"U": ">u1", b"I": ">i2", b"l": ">i4", b"L": ">i8", b"d": ">f4", b"D": ">f8"}
_CONSTANTS = {b"Z": None, b"T": True, b"F": False}
_DEEPEST = 16  # objects and arrays inside one another; those of XGBoost are 7 deep


def read_ubjson(content: bytes) -> Any:
    """Read a value; arrays of one type become arrays of NumPy.

    Keys must be unique, all lengths within the content, and nothing may follow: no other reader of the same
    bytes can understand them differently.

    Raises:
        ValueError: It is no such UBJSON.
    """
    reader = _Reader(content)
    value = reader.value(reader.take(1), 0)
    if reader.at != len(content):
        raise ValueError(f"UBJSON must end after its value, but {len(content) - reader.at} bytes follow")
    return value


def zero_floats(content: bytes, *names: str) -> bytes:
    """Return what XGBoost wrote with zeros in all arrays of floats of these names, which then pack well."""
    changed = bytearray(content)
    for name in names:
        mark = b"L" + len(name).to_bytes(8) + name.encode() + b"[$d#L"
        begin = 0
        while (at := changed.find(mark, begin)) >= 0:
            begin = at + len(mark) + 8
            size = 4 * int.from_bytes(changed[begin - 8 : begin])
            changed[begin : begin + size] = bytes(size)
    return bytes(changed)


class _Reader:
    def __init__(self, content: bytes) -> None:
        self.content = content
        self.at = 0

    def take(self, count: int) -> bytes:
        """Return the next bytes."""
        if not 0 <= count <= len(self.content) - self.at:
            raise ValueError(
                f"UBJSON must hold {count} bytes after byte {self.at}, but has {len(self.content)}"
            )
        self.at += count
        return self.content[self.at - count : self.at]

    def value(self, kind: bytes, depth: int) -> Any:
        """Read a value of a kind, whose mark was read."""
        if kind in _NUMBERS:
            return self.numbers(kind, 1)[0].item()
        if kind == b"S":
            return self.text()
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        if depth == _DEEPEST:
            raise ValueError(f"UBJSON must be at most {_DEEPEST} deep")
        if kind == b"{":
            return self.table(depth + 1)
        if kind == b"[":
            return self.array(depth + 1)
        raise ValueError(f"UBJSON has no type {kind!r}, but byte {self.at} does")

    def table(self, depth: int) -> dict[str, Any]:
        """Read keys and values up to the closing brace."""
        found: dict[str, Any] = {}
        while (mark := self.take(1)) != b"}":
            if mark != b"L":
                raise ValueError(f"a key of UBJSON must begin with its length, but got {mark!r}")
            self.at -= 1
            key = self.text()
            if key in found:
                raise ValueError(f"a key of UBJSON must be unique, but {key!r} is there twice")
            found[key] = self.value(self.take(1), depth)
        return found

    def array(self, depth: int) -> Any:
        """Read the elements of an array whose length is given, all of one type of number or any."""
        mark = self.take(1)
        kind = self.take(1) if mark == b"$" else b""
        if (self.take(1) if kind else mark) != b"#":
            raise ValueError("an array of UBJSON must give its length")
        count = self.length()
        if not kind:
            return [self.value(self.take(1), depth) for _ in range(count)]
        if kind not in _NUMBERS:
            raise ValueError(f"a typed array of UBJSON must be of numbers, but is of {kind!r}")
        return self.numbers(kind, count)

    def numbers(self, kind: bytes, count: int) -> Any:
        """Read so many numbers of one type."""
        dtype = np.dtype(_NUMBERS[kind])
        return np.frombuffer(self.take(count * dtype.itemsize), dtype)

    def text(self) -> str:
        """Read a length and as many bytes of text."""
        return self.take(self.length()).decode()

    def length(self) -> int:
        """Read a length, which XGBoost writes in eight bytes."""
        if self.take(1) != b"L":
            raise ValueError("a length in UBJSON must have eight bytes")
        return int.from_bytes(self.take(8), signed=True)
