"""The attack tells what escapes, and makes the same input of a number again."""

import random
import re
import sqlite3
import sys
import time
import zipfile
from contextlib import closing, suppress

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fuzz import harness
from fuzz.alterations import CHANGES, alter, make_special
from fuzz.containers import alter_inside, reseal

from costmodel.dataset.table._files import check_checksum, write_checksums
from costmodel.errors import CostModelError
from costmodel.records._line_file import LineFile, rewrite_lines

pytestmark = pytest.mark.white_box


def _raise(error):
    raise error


CALLS = {
    "succeeds": lambda: None,
    "refuses": lambda: _raise(CostModelError("A file must be one, but is none.")),
    "raises": lambda: _raise(KeyError("a")),
    "ends": lambda: __import__("os").abort(),
    "hangs": lambda: time.sleep(60.0),
    "fills": lambda: len(bytearray(3 * 2**20)),
}


@pytest.fixture
def calls(monkeypatch):
    """Commands of these tests, under limits that they can only meet on purpose.

    A command starts with all that this process holds, and waits for whatever else the machine does.
    """
    monkeypatch.setattr(harness, "CALLS", CALLS)
    monkeypatch.setattr(harness, "MOST_S", 600.0)
    monkeypatch.setattr(harness, "MOST_BYTES", 2**50)


@pytest.mark.usefixtures("calls")
@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("succeeds", ""),
        ("refuses", ""),
        ("raises", "raised, with exit code 70"),
        ("ends", "ended by signal 6"),
        ("hangs", "took more than 0 s"),
        ("fills", r"took \d+\.\d GB"),  # what this process has counts too
    ],
)
def test_what_escapes_is_told(monkeypatch, tmp_path, call, fault):
    if call == "hangs":
        monkeypatch.setattr(harness, "MOST_S", 0.4)
    if call == "fills":
        monkeypatch.setattr(harness, "MOST_BYTES", 2**20)
    (tmp_path / "here").mkdir()
    verdict = harness.run([call], tmp_path / "here")
    assert re.fullmatch(fault, verdict.fault)
    assert verdict.is_refusal == (call == "refuses")


def test_a_number_makes_the_same_input_again():
    data = b'{"a": [1, 2.5, "x"], "b": {"c": null}}'
    inputs = [alter(data, random.Random(f"0 {number}")) for number in range(300)]
    assert inputs == [alter(data, random.Random(f"0 {number}")) for number in range(300)]
    assert len({content for _, content in inputs}) > 200
    assert {name for done, _ in inputs for name in done.split("+")} == {each.__name__ for each in CHANGES}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("data", [b"", b"\xff\x00", b"[]", b"a = 1\n" * 9])
def test_any_file_can_be_altered(change, data):
    for seed in range(20):
        assert isinstance(change(data, random.Random(seed)), bytes)


def test_special_files_take_the_place_of_a_file(tmp_path):
    made = set()
    for seed in range(40):
        path = tmp_path / f"{seed}-{'x' * 99}"
        path.write_text("x")
        made.add(make_special(path, random.Random(seed)))
        assert path.is_symlink() or not path.is_file()
    assert made == {"folder", "pipe", "socket", "device", "loop", "nowhere"}


def _write_lines(path):
    rewrite_lines(path, [b'{"a": 1}', b'{"b": [2.5, "x"]}'])


def _write_archive(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model.json", '{"a": [1, 2]}')


def _write_table(path):
    pq.write_table(pa.table({"name": ["a", "b"], "latency_s": [1.0, 2.0]}), path)


def _write_database(path):
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO jobs VALUES (1, 'a')")
        connection.commit()


def _read_database(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM jobs").fetchall()


def _read_archive(path):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        return archive.read("model.json")


@pytest.mark.parametrize(
    ("write", "read"),
    [
        (_write_lines, lambda path: list(LineFile(path, "a store").read_new())),
        (_write_archive, _read_archive),
        (_write_table, lambda path: str(pq.read_table(path))),
        (_write_database, _read_database),
    ],
)
def test_what_a_checksum_guards_is_altered_behind_it(tmp_path, write, read):
    found = []
    for seed in range(40):
        path = tmp_path / f"{seed}"
        write(path)
        rng = random.Random(seed)
        assert alter_inside(path, lambda part, rng=rng: alter(part, rng)[1], rng)
        with suppress(CostModelError):  # of a line that is no JSON any more
            found.append(str(read(path)))
    assert len(set(found)) > 5


def test_a_file_without_parts_is_left_to_others(tmp_path):
    (tmp_path / "a.toml").write_text("a = 1\n")
    assert not alter_inside(tmp_path / "a.toml", bytes, random.Random(0))
    assert (tmp_path / "a.toml").read_text() == "a = 1\n"


def test_a_checksum_is_made_right_again(tmp_path):
    (tmp_path / "a.json").write_text("1")
    write_checksums(tmp_path, ["a.json"])
    (tmp_path / "a.json").write_text("2")
    with pytest.raises(CostModelError):
        check_checksum(tmp_path, "a.json")
    reseal(tmp_path / "a.json")
    check_checksum(tmp_path, "a.json")


@pytest.mark.usefixtures("calls")
def test_what_holds_together_is_told_and_what_does_not_is_left(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.unraisablehook", sys.__unraisablehook__)  # which prints, unlike pytest's
    calls = ["succeeds", "refuses", "raises", "ends", "succeeds"]
    folders = [tmp_path / f"{number}" for number in range(len(calls))]
    for folder in folders:
        folder.mkdir()
    verdicts = harness.run_together([([call], folder) for call, folder in zip(calls, folders, strict=True)])
    assert [verdict and verdict.is_refusal for verdict in verdicts] == [False, True, None, None, None]
    assert sorted(tmp_path.iterdir()) == folders
