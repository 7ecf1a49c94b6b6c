"""Files of every format with damage in them: fields that lie, and bytes that are cut, changed or put in."""

import gzip
import io
import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from fake_auto_scheduler import fake_line
from fake_caches import fake_cache
from fake_foreign import (
    COLUMN_MAP,
    PLATFORM_TOML,
    csv_text,
    fake_records,
    fake_rows,
    fake_t4,
    json_lines,
    write_database,
)
from fake_records import fake_measurement

from costmodel.dataset._export import kernel_tuner_cache, t4_document

DEEP = "[" * 500 + "]" * 500
# What no number, list or object of any format may be.
LIES = (None, float("nan"), -1.0, float("inf"), 10**400, "../../etc/passwd", "x" * 300_000, {"a": {}}, DEEP)

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Damaged:
    """A damaged file.

    Attributes:
        name: What was done.
        file: Name of the file.
        data: Its bytes.
    """

    name: str
    file: str
    data: bytes


def lying_files() -> Iterator[Damaged]:
    """A wrong value in each field that decides something."""
    own = [fake_measurement(tile=1), fake_measurement(tile=2)]
    cached, shown, result = ("cache", "32,2,col,15"), ("cache", "1,1x4,row,0.5"), ("results", 0)
    record = (*shown, "costmodel", 0)
    formats: tuple[tuple[str, Any, list[Place], Callable[[Any], bytes]], ...] = (
        (
            "cache.json",
            fake_cache(),
            [("problem_size",), ("tune_params",), cached, (*cached, "time"), (*cached, "times", 1)],
            _json,
        ),
        (
            "own_cache.json",
            kernel_tuner_cache(own),
            [shown, (*shown, "times"), record, (*record, "candidate"), (*record, "latencies_s")],
            _json,
        ),
        (
            "t4.json",
            fake_t4(),
            [
                *(("results",), result, (*result, "configuration"), (*result, "times", "runtimes", 0)),
                *((*result, "invalidity"), (*result, "measurements")),
            ],
            _json,
        ),
        (
            "own_t4.json",
            t4_document(own),
            [(*result, "costmodel"), (*result, "times"), (*result, "costmodel", 0, "platform", "device")],
            _json,
        ),
        (
            "runs.csv",
            fake_rows(),
            [(0, name) for name in ("run_1", "sms", "status", "gpu", "tile", "kernel", "how")],
            lambda rows: csv_text(rows).encode(),
        ),
        (
            "database_tuning_record.json",
            fake_records(),
            [(0, 0), (0, 1), (0, 1, 0), (0, 1, 0, 1), (0, 1, 0, 1, 0, 1), (0, 1, 1, 0)],
            json_lines,
        ),
        (
            "log.json",
            [fake_line()],
            [
                *((0, "v"), (0, "i"), (0, "i", 0, 0), (0, "i", 0, 1), (0, "i", 0, 2, 1), (0, "i", 1, 1)),
                *((0, "i", 1, 1, 5), (0, "i", 1, 1, 5, 1), (0, "i", 1, 1, 5, 3), (0, "i", 1, 1, 5, 4, 0)),
                *((0, "r", 0), (0, "r", 0, 0), (0, "r", 1), (0, "r", 3)),
            ],
            json_lines,
        ),
    )
    may_be_empty = [("runs.csv", (0, name)) for name in ("run_1", "sms")]
    for file, document, places, encode in formats:
        for place, lie in product(places, LIES):
            if lie is not None or (file, place) not in may_be_empty:
                name = f"{file} {place} = {str(lie)[:20]}"
                yield Damaged(name, file, encode(_changed(document, place, lie)))


def broken_files(count: int, seed: int) -> Iterator[Damaged]:
    """Bytes that are cut, changed, put in or said twice, plain and gzipped; some do no harm."""
    rng = random.Random(seed)
    files = list(whole_files().items())
    for i in range(count):
        file, data = files[i % len(files)]
        damage = rng.choice((_cut, _flip, _insert, _repeat))
        broken = damage(data, rng)
        packs = rng.random() < 0.3
        if packs:
            broken = gzip.compress(broken, mtime=0)
            broken = _cut(broken, rng) if rng.random() < 0.7 else _flip(broken, rng)
        yield Damaged(f"{file} {damage.__name__} {i}", file, broken)


def whole_files() -> dict[str, bytes]:
    """A file of each format, undamaged."""
    table = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([{k: str(v) for k, v in row.items()} for row in fake_rows()]), table)
    own = [fake_measurement(tile=1), fake_measurement(tile=2)]
    return {
        "cache.json": _json(fake_cache()),
        "own_cache.json": _json(kernel_tuner_cache(own)),
        "t4.json": _json(fake_t4()),
        "own_t4.json": _json(t4_document(own)),
        "runs.csv": csv_text(fake_rows()).encode(),
        "runs.parquet": table.getvalue(),
        "database_tuning_record.json": json_lines(fake_records()),
        "database_workload.json": b"",
        "log.json": json_lines([fake_line(), fake_line(costs=[2e-3])]),
        "map.toml": COLUMN_MAP.encode(),
        "platform.toml": PLATFORM_TOML.encode(),
    }


def write_damaged(folder: Path, damaged: Damaged) -> Path:
    """Write the file with what it needs beside it, and give the path that is to be read."""
    (folder / "map.toml").write_text(COLUMN_MAP)
    (folder / "platform.toml").write_text(PLATFORM_TOML)
    (folder / "runs.csv").write_text(csv_text(fake_rows()))
    (folder / "t4.json").write_bytes(_json(fake_t4()))
    records = write_database(folder, fake_records())
    file = folder / damaged.file
    broken_programs = damaged.file == "database_workload.json"
    file.write_bytes(damaged.data + file.read_bytes()[9:] if broken_programs else damaged.data)
    readers = {"map.toml": "runs.csv", "platform.toml": "t4.json", "database_workload.json": records.name}
    return folder / readers.get(damaged.file, damaged.file)


def _json(document: Any) -> bytes:
    return json.dumps(document).encode()


def _changed(document: Any, place: Place, value: Any) -> Any:
    """A copy with another value at a place."""
    changed = deepcopy(document)
    holder = changed
    for step in place[:-1]:
        holder = holder[step]
    holder[place[-1]] = json.loads(value) if value is DEEP else value
    return changed


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(max(1, len(data)))
    return data[:at] + bytes([rng.randrange(256)]) + data[at + 1 :]


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.randrange(len(data) + 1)
    what = rng.choice((b"NaN", b"-1", b'"', b"{", b"]", b"\x00", b"\xff", rb"\ud800", b"1e999", b"[" * 5000))
    return data[:at] + what + data[at:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(data) + 1), rng.randrange(1, 60)
    return data[: start + length] + data[start:]
