"""A writer is killed again and again; nothing that it reported as stored may be lost."""

import random
import subprocess
import sys
import time
from pathlib import Path

from costmodel.records import RecordStore, read_records

KILLS = 60
WRITER = Path(__file__).with_name("append_until_killed.py")


def run_and_kill(path: Path, seconds: float) -> list[str]:
    """Keys that a writer acknowledged before SIGKILL, given this long after it opened the store."""
    with subprocess.Popen([sys.executable, WRITER, path], stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "open\n"
        time.sleep(seconds)
        child.kill()
        # A line that the kill cut was acknowledged in part only: its keys do not count.
        lines = child.stdout.read().splitlines(keepends=True)
    return [key for line in lines if line.endswith("\n") for key in line.split()]


def test_a_killed_writer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    chance = random.Random(0)
    acknowledged: list[str] = []
    for _ in range(KILLS):
        acknowledged += run_and_kill(path, chance.uniform(0.0, 0.03))
    stored = [record.key for record in read_records(path)]
    assert len(acknowledged) > KILLS
    assert len(stored) == len(set(stored))
    assert set(acknowledged) <= set(stored)
    with RecordStore(path) as store:
        assert store.keys() == set(stored)
