"""A writer is killed again and again; nothing that it reported as stored may be lost."""

import os
import random
import time
from pathlib import Path

from append_until_killed import append_until_killed
from fresh_processes import Pipe, Process

from costmodel.records import RecordStore, read_records

KILLS = 30


def run_and_kill(path: Path, seconds: float) -> list[str]:
    """Keys that a writer acknowledged before SIGKILL, given this long after it opened the store."""
    reading, writing = Pipe(duplex=False)
    child = Process(target=append_until_killed, args=(path, writing))
    child.start()
    writing.close()
    with reading, os.fdopen(os.dup(reading.fileno())) as said:
        assert said.readline() == "open\n"
        time.sleep(seconds)
        child.kill()
        # A line that the kill cut was acknowledged in part only: its keys do not count.
        lines = said.read().splitlines(keepends=True)
    child.join()
    return [key for line in lines if line.endswith("\n") for key in line.split()]


def test_a_killed_writer_loses_and_doubles_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    chance = random.Random(0)
    acknowledged: set[str] = set()
    for _ in range(KILLS):
        acknowledged |= set(run_and_kill(path, chance.uniform(0.0, 0.03)))
        # Each time: the next writer begins behind what is stored, and would write again what was lost.
        stored = [record.key for record in read_records(path)]
        assert len(stored) == len(set(stored))
        assert acknowledged <= set(stored)
    assert len(acknowledged) > KILLS
    with RecordStore(path) as store:
        assert store.keys() == set(stored)
