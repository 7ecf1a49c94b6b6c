"""Files of traces: Chrome's JSON, whole or damaged; tables and databases are read beside this."""

import json
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from costmodel.errors import CostModelError
from costmodel.opening import Stream, open_unpacked
from costmodel.planner.graphs._recorded_graph import FaultCounts
from costmodel.planner.graphs._trace_databases import read_database
from costmodel.planner.graphs._trace_events import DeviceProperties, Event, Trace, read_count, read_whole
from costmodel.planner.graphs._trace_tables import read_trace_table
from costmodel.planner.graphs._trace_xla import is_of_xla, read_xla
from costmodel.reading import refusing, say_looks

_WHAT, _REMEDY = "a trace", "Record it with torch.profiler and export_chrome_trace."
# What profilers write that is read only once it was exported, by the ends of names.
_EXPORTS = {
    ".nsys-rep": "a report of Nsight Systems. Export it with `nsys export --type sqlite` and give that file.",
    ".xplane.pb": "a profile of XLA in binary. Give the *.trace.json.gz that JAX wrote beside it.",
}
_CHUNK = 1 << 16
_ZIP = b"PK\x03\x04"  # an archive that does not compress holds a trace that could be read, or several
# Where an event could begin; one that is damaged is left there.
_OBJECT = re.compile(r'\{\s*"')


class _File(msgspec.Struct):
    """Chrome's JSON with Kineto's description of GPUs and PyTorch's of ranks."""

    traceEvents: list[Event]  # noqa: N815 (Chrome's name)
    deviceProperties: Any = None  # noqa: N815 (Kineto's name)
    distributedInfo: Any = None  # noqa: N815 (PyTorch's name)


def read_trace(path: Path, findings: FaultCounts) -> Trace:
    """Read a file, gzipped or not; what cannot be read of it is counted and left out.

    Raises:
        CostModelError: The file cannot be opened, or holds no event.
    """
    for ending, told in _EXPORTS.items():
        if path.name.endswith(ending):
            raise CostModelError(f"A trace must be one that was exported, but {path} is {told}")
    trace = read_database(path)
    if trace is None:
        with refusing(path, _WHAT, _REMEDY), open_unpacked(path) as (file, _):
            data = _content(file, findings)
        if data.startswith(_ZIP):
            raise CostModelError(
                f"A trace must be a file of its own, but {path} is a ZIP archive. Unpack it, and give "
                "the file or, of several ranks, their folder."
            )
        trace = read_trace_table(path, data) or _read_json(data, findings)
    if not trace.events:
        looks = say_looks(path, _WHAT, "chrome-trace")
        if not looks or "`costmodel plan" in looks:  # which is what was tried
            looks = "Export it again."
        raise CostModelError(
            f"A trace must hold a list traceEvents, as torch.profiler's export_chrome_trace writes it, but "
            f"{path} has no event. {looks}"
        )
    return trace


def _content(file: Stream, findings: FaultCounts) -> bytes:
    """All that can be unpacked of a file."""
    parts = []
    try:
        while part := file.read1(_CHUNK):
            parts.append(part)
    except (EOFError, zlib.error, OSError):
        findings.add("truncated")
    return b"".join(parts)


def _read_json(data: bytes, findings: FaultCounts) -> Trace:
    data = data.removeprefix(b"\xef\xbb\xbf")
    kind: Any = list[Event] if data[:64].lstrip().startswith(b"[") else _File
    try:
        found = msgspec.json.decode(data, type=kind)
    except (ValueError, RecursionError):  # cut off, NaN, no UTF-8, or fields of other types: event by event
        text = data.decode("utf-8", errors="replace")
        devices, told = _after(text, '"deviceProperties"', "["), _after(text, '"distributedInfo"', "{")
        rank, ranks = _read_rank(told)
        return Trace(list(_salvaged(text, findings)), _devices(devices), rank=rank, world_size=ranks)
    if isinstance(found, list):
        return Trace(found, {})
    if is_of_xla(found.traceEvents):
        return read_xla(data)
    rank, ranks = _read_rank(found.distributedInfo)
    return Trace(found.traceEvents, _devices(found.deviceProperties), rank=rank, world_size=ranks)


def _read_rank(found: Any) -> tuple[int | None, int]:
    """Read which rank a file is of, and of how many."""
    told = found if isinstance(found, dict) else {}
    return read_whole(told.get("rank")), read_count(told.get("world_size"))


def _devices(found: Any) -> dict[int, DeviceProperties]:
    entries = [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []
    numbered = ((read_whole(each.get("id")), DeviceProperties.of(each)) for each in entries)
    return {number: properties for number, properties in numbered if number is not None}


def _after(text: str, key: str, opening: str) -> Any:
    """What an opening bracket behind a key begins, wherever it stands; None if it cannot be read."""
    place = text.find(key)
    begin = text.find(opening, place) if place >= 0 else -1
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, begin)[0] if begin >= 0 else None
    except (ValueError, RecursionError):
        return None


def _salvaged(text: str, findings: FaultCounts) -> Iterator[Event]:
    """Events one by one; one that cannot be read is left out, and those behind it are read."""
    decoder = json.JSONDecoder(strict=False)
    place = text.find("[", max(text.find('"traceEvents"'), 0)) + 1
    read, lost = 0, list[tuple[int, int]]()
    while place and text[(place := _skip(text, place)) : place + 1] != "]":
        try:
            found, place = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            if (following := _next_event(text, place + 1, decoder)) < 0:
                findings.add("truncated", "truncated" not in findings.counts)
                break
            lost.append((read, place))
            place = following
            continue
        read += 1
        event = _event(found)
        if event is None:
            findings.add("malformed")
        else:
            yield event
    if lost:
        findings.add("unreadable_event", len(lost))
        findings.unknown.append(
            f"The first event that cannot be read begins at character {lost[0][1]:,}, after {lost[0][0]:,} "
            "events."
        )


def _next_event(text: str, place: int, decoder: json.JSONDecoder) -> int:
    """Where the next object with a phase begins; -1 if there is none."""
    while (found := _OBJECT.search(text, place)) is not None:
        place = found.start()
        try:
            value, _ = decoder.raw_decode(text, place)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, dict) and "ph" in value:
            return place
        place += 1
    return -1


def _skip(text: str, place: int) -> int:
    while text[place : place + 1] in (" ", "\t", "\r", "\n", ","):
        place += 1
    return place


def _event(found: Any) -> Event | None:
    try:
        return msgspec.convert(found, Event)
    except (msgspec.ValidationError, UnicodeError):  # halves of characters
        return None
