"""The attack tells what escapes, and makes the same input of a number again."""

import random
import time

import pytest
from fuzz import harness
from fuzz.alterations import CHANGES, alter, make_special

from costmodel.errors import CostModelError

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


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        ("succeeds", ""),
        ("refuses", ""),
        ("raises", "raised, with exit code 70"),
        ("ends", "ended by signal 6"),
        ("hangs", "took more than 0 s"),
        ("fills", "took 0.0 GB"),
    ],
)
def test_what_escapes_is_told(monkeypatch, tmp_path, call, fault):
    monkeypatch.setattr(harness, "CALLS", CALLS)
    monkeypatch.setattr(harness, "MOST_S", 0.4 if call == "hangs" else 20.0)
    monkeypatch.setattr(harness, "MOST_BYTES", 2**20 if call == "fills" else 2**31)
    (tmp_path / "here").mkdir()
    verdict = harness.run([call], tmp_path / "here")
    assert verdict.fault.startswith(fault[:7]) if call == "fills" else verdict.fault == fault
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
        path = tmp_path / f"{seed}"
        path.write_text("x")
        made.add(make_special(path, random.Random(seed)))
        assert path.is_symlink() or not path.is_file()
    assert made == {"folder", "pipe", "socket", "device", "loop", "nowhere"}
