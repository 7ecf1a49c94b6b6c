"""Alterations of valid files: of their bytes, their values, how they are packed, and what they are."""

import gzip
import json
import os
import random
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What may stand where a number, a text, a list or an object should.
LIES: tuple[Any, ...] = (
    *(None, True, 0, -1, 2**31, 2**63, 10**400, 1e308, 1e-320, float("nan"), float("inf"), "", "x" * 300_000),
    *("\ud800", "\x1b[2J\x07", "../../etc/passwd", [], {}, [[]], {"": {"": {}}}, [0] * 1000),
)
# What may stand anywhere in a text.
PIECES = (
    *(b"\xff", b"\x00", b"\xef\xbb\xbf", b'"', b"'", b"{", b"]", b"\n", b",", b"=", b"-1", b"NaN", b"1e999"),
    *(rb"\ud800", b"9" * 5000, b"[" * 3000, b'{"a":' * 3000, b"x" * 100_000, b" " * 100_000),
)
_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_MOST_PARSED = 2**20


def alter(data: bytes, rng: random.Random) -> tuple[str, bytes]:
    """Alter the content of a file once, or a few times; what was done, and the result."""
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 5))):
        change = rng.choice(CHANGES)
        data = change(data, rng)
        done.append(change.__name__)
    return "+".join(done), data


def cut(data: bytes, rng: random.Random) -> bytes:
    """Leave out the end."""
    return data[: rng.randrange(len(data) + 1)]


def flip(data: bytes, rng: random.Random) -> bytes:
    """Set some bytes."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 3, 50))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def insert(data: bytes, rng: random.Random) -> bytes:
    """Put something in."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + rng.choice(PIECES) + data[at:]


def repeat(data: bytes, rng: random.Random) -> bytes:
    """Say a part twice."""
    start, length = rng.randrange(len(data) + 1), rng.randrange(1, 200)
    return data[: start + length] + data[start:]


def drop(data: bytes, rng: random.Random) -> bytes:
    """Leave out a part."""
    start, length = rng.randrange(len(data) + 1), rng.randrange(1, 200)
    return data[:start] + data[start + length :]


def renumber(data: bytes, rng: random.Random) -> bytes:
    """Write another number in the place of one."""
    found = list(_NUMBER.finditer(data[:_MOST_PARSED]))
    if not found:
        return data
    place = rng.choice(found)
    number = rng.choice(
        (b"-1", b"0", b"2147483648", b"9" * 20, b"9" * 5000, b"1e400", b"nan", b"1.5", b'"7"')
    )
    return data[: place.start()] + number + data[place.end() :]


def lie(data: bytes, rng: random.Random) -> bytes:
    """Put a wrong value into a JSON document, or into a line of it; a name may go or come, too."""
    try:
        lines = [data] if data.count(b"\n") < 2 or data.lstrip()[:1] == b"{\n" else data.splitlines()
        at = rng.randrange(len(lines))
        document = json.loads(lines[at] if len(data) < _MOST_PARSED else b"")
    except (ValueError, RecursionError):
        try:
            lines, at, document = [data], 0, json.loads(data)
        except (ValueError, RecursionError):
            return renumber(data, rng)
    lines[at] = json.dumps(_with_lie(document, rng)).encode("utf-8", "surrogatepass")
    return b"\n".join(lines)


def recode(data: bytes, rng: random.Random) -> bytes:
    """Write the text in another encoding."""
    encoding = rng.choice(("utf-16", "utf-32", "utf-8-sig", "utf-7", "cp500"))
    return data.decode("latin-1").encode(encoding, "replace")


def pack(data: bytes, rng: random.Random) -> bytes:
    """Gzip it, and perhaps damage that."""
    packed = gzip.compress(data, 1, mtime=0)
    return rng.choice((bytes, lambda each: cut(each, rng), lambda each: flip(each, rng)))(packed)


def swell(data: bytes, rng: random.Random) -> bytes:
    """Gzip what unpacks to a thousand times its size."""
    return gzip.compress(data[:1000] + b" " * rng.choice((2**20, 2**26, 2**29)), 1, mtime=0)


def empty(_: bytes, rng: random.Random) -> bytes:
    """Leave nothing, or something else."""
    return rng.choice(
        (b"", b"\n", b"{}", b"[]", b"null", b"PAR1", b"PK\x03\x04", b"SQLite format 3\0", b"\x1f\x8b")
    )


CHANGES: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    *(cut, flip, flip, insert, insert, repeat, drop, renumber, renumber, lie, lie, lie, recode, pack, empty),
)
# So dear that few inputs are of it.
SWELLING = 200


def make_special(path: Path, rng: random.Random, *, waits: bool = True) -> str:
    """Put something that is no file in the place of one; what it is.

    Args:
        path: The file.
        rng: Chooses what.
        waits: Whether it may be a pipe, of which whoever writes waits for a reader.
    """
    path.unlink(missing_ok=True)
    kind = rng.choice(("folder", "socket", "device", "loop", "nowhere", *(("pipe",) if waits else ())))
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path.with_name("s")))  # its name may have 107 bytes
        path.with_name("s").rename(path)
    else:
        targets = {"device": rng.choice(("/dev/zero", "/dev/full")), "loop": path.name, "nowhere": "none"}
        path.symlink_to(targets[kind])
    return kind


def odd_name(rng: random.Random) -> str:
    """Write a name that no file has."""
    return rng.choice(
        ("x" * 10_000, "a/" * 3000, "", "-", "\udcff", "~", "..", "file:///etc/passwd", "http://x")
    )


def _with_lie(document: Any, rng: random.Random) -> Any:
    """Put a lie in the place of a value, however deep."""
    if isinstance(document, dict) and document and rng.random() < 0.85:
        key = rng.choice(list(document))
        if rng.random() < 0.1:
            document.pop(key)
        elif rng.random() < 0.1:
            document[rng.choice(("", "x" * 1000, "\ud800", key + "_"))] = document[key]
        else:
            document[key] = _with_lie(document[key], rng)
        return document
    if isinstance(document, list) and document and rng.random() < 0.85:
        at = rng.randrange(len(document))
        document[at] = _with_lie(document[at], rng)
        return document
    return rng.choice(LIES)
