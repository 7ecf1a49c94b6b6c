import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_records import fake_measurement
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome, RecordStore, forget_records, read_records

pytestmark = pytest.mark.filterwarnings("ignore:.*must end in a whole line:RuntimeWarning")

RECORDS = [fake_measurement(tile=tile) for tile in (1, 2, 4)] + [
    fake_measurement(tile=8, outcome=Outcome.LAUNCH_ERROR)
]


def write(path: Path, records: list[Measurement]) -> bytes:
    with RecordStore(path) as store:
        store.append(records)
    return path.read_bytes()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("store")


def test_round_trip_over_two_sessions(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "a.jsonl"
    write(path, RECORDS[:2])
    write(path, RECORDS[2:])
    assert list(read_records(path)) == RECORDS
    with RecordStore(path) as store:
        assert store.keys() == {record.key for record in RECORDS}
        assert RECORDS[0].key in store
        assert "0" * 16 not in store


def test_a_known_key_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    before = write(path, RECORDS[:1])
    with RecordStore(path) as store:
        with pytest.raises(ValueError, match="must be new and distinct"):
            store.append([RECORDS[1], RECORDS[0]])
        with pytest.raises(ValueError, match="one key twice"):
            store.append([RECORDS[1], RECORDS[1]])
        assert path.read_bytes() == before
        store.append(RECORDS[1:])
        assert RECORDS[1].key in store
        with pytest.raises(ValueError, match=RECORDS[1].key):
            store.append(RECORDS[1:2])
    assert list(read_records(path)) == RECORDS


def test_two_writers_are_refused_in_one_process_and_in_two(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with RecordStore(path):
        with pytest.raises(CostModelError, match="one writer"):
            RecordStore(path)
        writer = Path(__file__).with_name("append_until_killed.py")
        other = subprocess.run([sys.executable, writer, path], capture_output=True, text=True, check=False)
        assert "another process is writing" in other.stderr
        assert other.stdout == ""
    RecordStore(path).close()


def test_a_link_to_a_store_is_the_store(tmp_path: Path) -> None:
    path, link = tmp_path / "deep" / "a.jsonl", tmp_path / "link.jsonl"
    write(path, RECORDS[:3])
    link.symlink_to("deep/a.jsonl")
    with RecordStore(link) as store:
        store.append(RECORDS[3:])
        with pytest.raises(CostModelError, match="one writer"):
            RecordStore(path)
    forget_records(link, config={"tile": 1})
    assert link.is_symlink()
    assert list(read_records(path)) == list(read_records(link)) == RECORDS[1:]
    assert [each.name for each in tmp_path.glob("*.lock")] == []


@settings(max_examples=60)
@given(data=st.data())
def test_cut_anywhere_keeps_each_whole_line(folder: Path, data: st.DataObject) -> None:
    path = folder / "cut.jsonl"
    torn = folder / "cut.jsonl.torn"
    path.unlink(missing_ok=True)
    torn.unlink(missing_ok=True)
    full = write(path, RECORDS)
    length = data.draw(st.integers(0, len(full)))
    cut = full[:length]
    path.write_bytes(cut)
    whole = cut.count(b"\n")
    assert list(read_records(path)) == RECORDS[:whole]
    with RecordStore(path) as store:
        assert store.keys() == {record.key for record in RECORDS[:whole]}
        store.append(RECORDS[whole:])
    assert path.read_bytes() == full
    tail = cut[cut.rfind(b"\n") + 1 :]
    assert (torn.read_bytes() if torn.exists() else b"") == tail


@settings(max_examples=150)
@given(data=st.data())
def test_a_flipped_byte_is_never_read_as_data(folder: Path, data: st.DataObject) -> None:
    path = folder / "flip.jsonl"
    torn = folder / "flip.jsonl.torn"
    path.unlink(missing_ok=True)
    torn.unlink(missing_ok=True)
    full = bytearray(write(path, RECORDS))
    position = data.draw(st.integers(0, len(full) - 1))
    full[position] ^= data.draw(st.integers(1, 255))
    path.write_bytes(full)
    try:
        found = list(read_records(path))
    except CostModelError:
        with pytest.raises(CostModelError, match=r"flip\.jsonl, line [1-4] is damaged"):
            RecordStore(path)
        assert path.read_bytes() == full
        return
    # Only damage of the last line may pass, or of the newline before it; what it hits is kept aside.
    assert len(RECORDS) - 2 <= len(found) < len(RECORDS)
    assert found == RECORDS[: len(found)]
    RecordStore(path).close()
    assert path.read_bytes() + torn.read_bytes() == full


def test_damage_in_the_middle_names_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    lines = write(path, RECORDS).splitlines(keepends=True)
    path.write_bytes(lines[0] + lines[1].replace(b"matmul", b"natmul") + lines[2])
    with pytest.raises(CostModelError, match=r"a\.jsonl, line 2 is damaged \(its checksum differs\)"):
        list(read_records(path))
    with pytest.raises(CostModelError, match="line 2"):
        RecordStore(path)
    # The failed open let go of the lock: the repaired file can be opened at once.
    path.write_bytes(lines[0])
    RecordStore(path).close()


def test_a_record_of_another_schema_is_refused_even_in_the_last_line(tmp_path: Path) -> None:
    import zlib

    path = tmp_path / "a.jsonl"
    record = write(path, RECORDS[:1])[len(b'{"crc32":"12345678","record":') : -2]
    newer = record.replace(b'"schema_version":2', b'"schema_version":3')
    assert newer != record
    path.write_bytes(b'{"crc32":"%08x","record":%s}\n' % (zlib.crc32(newer), newer))
    before = path.read_bytes()
    with pytest.raises(CostModelError, match="line 1 is no measurement of this version"):
        RecordStore(path)
    assert path.read_bytes() == before


def test_a_reader_sees_whole_lines_while_a_writer_is_active(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    with RecordStore(path) as store:
        store.append(RECORDS[:1])
        reader = read_records(path)
        assert next(reader) == RECORDS[0]
        store.append(RECORDS[1:])
        assert list(read_records(path)) == RECORDS


def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.jsonl"
    before = write(path, RECORDS[:1])

    def fail(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with RecordStore(path) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", fail)
            with pytest.raises(CostModelError, match="No space left on device"):
                store.append(RECORDS[1:])
        assert path.read_bytes() == before
        assert RECORDS[1].key not in store
        store.append(RECORDS[1:])
    assert list(read_records(path)) == RECORDS


@pytest.mark.parametrize(
    ("name", "message"), [("a.txt", "must be a .jsonl file"), ("file/a.jsonl", "Cannot write record store")]
)
def test_a_path_that_cannot_be_a_store(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CostModelError, match=message):
        RecordStore(tmp_path / name)


def test_reading_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="No such file"):
        list(read_records(tmp_path / "a.jsonl"))
