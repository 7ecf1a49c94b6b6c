"""Lines of a file that survives killed processes: each with a checksum, a torn one at the end moved aside.

A line is ``{"crc32": "0f1e2d3c", "record": {...}}``, the checksum being that of the record's bytes. What a
kill or a power cut leaves of a line at the end of the file is a torn tail.
"""

import os
import zlib
from pathlib import Path

import msgspec


class DamagedLineError(Exception):
    """A line is not what a writer wrote."""


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    crc32: str
    record: msgspec.Raw


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Line).decode


def encode_line(record: bytes) -> bytes:
    """The line of a record in JSON, with its newline."""
    return _encode(_Line(_crc32(record), msgspec.Raw(record))) + b"\n"


def parse_line(line: bytes) -> bytes:
    """The record of a line, in JSON.

    Raises:
        DamagedLineError: The bytes are not those of a complete line.
    """
    if not line.endswith(b"\n"):
        raise DamagedLineError("no newline at its end")
    try:
        parsed = _decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DamagedLineError(str(error)) from None
    record = bytes(parsed.record)
    if parsed.crc32 != _crc32(record):
        raise DamagedLineError("its checksum differs")
    return record


def move_tail(path: Path, end: int) -> None:
    """Append the bytes behind ``end`` to ``<path>.torn``, then cut them off."""
    with path.open("r+b") as file, Path(f"{path}.torn").open("ab") as torn:
        file.seek(end)
        torn.write(file.read())
        torn.flush()
        os.fsync(torn.fileno())
        file.truncate(end)
        os.fsync(file.fileno())


def _crc32(record: bytes) -> str:
    return f"{zlib.crc32(record):08x}"
