"""Files of checked lines: what is written is on disk, and what is torn is moved aside."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from costmodel.errors import CostModelError
from costmodel.records import RecordStore
from costmodel.records._line_file import SharedLineFile

pytestmark = [
    pytest.mark.white_box,
    pytest.mark.filterwarnings("ignore:.*must end in a whole line:RuntimeWarning"),
]

RECORDS = [json.dumps({"n": i, "text": "x" * 10 * i}).encode() for i in range(5)]


def opened(path: Path) -> SharedLineFile:
    return SharedLineFile(path, "journal")


def records_of(lines: SharedLineFile) -> list[bytes]:
    return [record for _, record in lines.read_new()]


def test_a_reader_goes_on_where_it_was(tmp_path: Path) -> None:
    reader, writer = opened(tmp_path / "a.jsonl"), opened(tmp_path / "a.jsonl")
    writer.append(RECORDS[:2])
    assert list(reader.read_new()) == [(1, RECORDS[0]), (2, RECORDS[1])]
    assert list(reader.read_new()) == []
    writer.append(RECORDS[2:3])
    assert list(reader.read_new()) == [(3, RECORDS[2])]


def test_a_line_torn_anywhere_leaves_what_was_before(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    opened(path).append(RECORDS)
    whole = path.read_bytes()
    ends = [i + 1 for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        kept = sum(end <= cut for end in ends)
        again = opened(path)
        again.append([b'{"n":9}'])
        assert records_of(again) == [*RECORDS[:kept], b'{"n":9}']


def test_a_torn_tail_is_told_once_with_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    opened(path).append(RECORDS)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.warns(RuntimeWarning, match=r"its \d+ bytes are in .*a\.jsonl\.torn now") as told:
        opened(path)
    assert len(told) == 1
    assert len(records_of(opened(path))) == 4


def test_who_appends_to_a_file_that_was_deleted_makes_it_anew(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = opened(path)
    lines.append(RECORDS)
    path.unlink()
    lines.append(RECORDS[:2])
    assert records_of(opened(path)) == RECORDS[:2]


@pytest.mark.parametrize("blocks", [1, 2])
@pytest.mark.parametrize("more", [-1, 0, 1])
def test_a_long_last_line_is_found_whole_or_torn(tmp_path: Path, blocks: int, more: int) -> None:
    # The end of a file is read in blocks of 64 KiB; a newline may stand at either side of their borders.
    path = tmp_path / "a.jsonl"
    opened(path).append([b"1", b'""'])
    length = len(path.read_bytes().splitlines(keepends=True)[-1])
    long = json.dumps("x" * (blocks * (1 << 16) + more - length)).encode()
    opened(path).append([long])
    whole = path.read_bytes()
    assert records_of(opened(path)) == [b"1", b'""', long]
    path.write_bytes(whole[:-1])
    opened(path)
    assert path.read_bytes() + Path(f"{path}.torn").read_bytes() == whole[:-1]
    assert records_of(opened(path)) == [b"1", b'""']


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"Cannot write journal .*: Is a directory"):
        opened(tmp_path)


def test_damage_before_the_last_line_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = opened(path)
    lines.append(RECORDS)
    path.write_bytes(path.read_bytes().replace(b'"n": 2', b'"n": 7'))
    with pytest.raises(CostModelError, match=r"a\.jsonl, line 3 is damaged \(its checksum differs\)"):
        records_of(lines)


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    lines = opened(path)
    lines.append(RECORDS[:1])
    before = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(CostModelError, match=r"Cannot write journal .*: No space left on device"):
            lines.append(RECORDS[1:])
    assert path.read_bytes() == before
    lines.append(RECORDS[1:])
    assert records_of(lines) == RECORDS


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    lines = opened(tmp_path / "a.jsonl")
    lines.append(RECORDS)
    assert records_of(lines) == RECORDS


@pytest.mark.parametrize("make", [RecordStore, opened])
def test_the_names_of_new_files_and_folders_are_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: type[RecordStore]
) -> None:
    synced, fsync = set(), os.fsync

    def note(descriptor: int) -> None:
        synced.add(Path(f"/proc/self/fd/{descriptor}").resolve())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    make(tmp_path / "new" / "folder" / "a.jsonl")
    assert {tmp_path, tmp_path / "new", tmp_path / "new" / "folder"} <= synced


@pytest.mark.skipif(os.geteuid() == 0, reason="needs a user whom permissions stop; root may write anywhere")
def test_a_folder_that_lets_nobody_lock_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.touch()
    tmp_path.chmod(0o500)
    with pytest.raises(CostModelError, match=r"Cannot write journal .*: Permission denied"):
        opened(path)


APPEND_MANY = """
import json, pathlib, sys
from costmodel.records._line_file import SharedLineFile
lines = SharedLineFile(pathlib.Path(sys.argv[1]), "journal")
for i in range(50):
    lines.append([json.dumps([sys.argv[2], i, "x" * 200]).encode()])
"""


def test_processes_append_to_one_file_at_once(tmp_path: Path) -> None:
    path, names = tmp_path / "a.jsonl", ["a", "b", "c"]
    processes = [subprocess.Popen([sys.executable, "-c", APPEND_MANY, path, name]) for name in names]
    assert [process.wait() for process in processes] == [0, 0, 0]
    found = [json.loads(record)[:2] for record in records_of(opened(path))]
    assert len(found) == 150
    for name in names:
        assert [i for owner, i in found if owner == name] == list(range(50))
