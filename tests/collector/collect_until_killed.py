"""Kills a process with SIGKILL again and again, and counts what that costs the store that it writes.

The process is forked, not started: it begins its work at once, so that a kill falls into it and not into
imports. A write takes microseconds and is rarely hit by chance, so some processes get a limit on the size of
their files, and the kernel kills them (SIGXFSZ) in the middle of the write that reaches it.
"""

import json
import os
import random
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
from fake_collector import CONFIG, FakeCollector, draw_tiles, files, stored

from costmodel.collector.campaign._campaign import Campaign
from costmodel.collector.campaign._config import KernelPlan
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.records import Measurement, RecordStore, read_records

Say = Callable[[str], object]
LONG = msgspec.structs.replace(
    CONFIG, kernels=KernelPlan(random=40, rounds=3, per_round=20, good_at=(8, 132)), side_by_side=10
)

_CUT_SHARE = 0.2
_LONGER = 1.08
_LONGEST_CUT = 200_000  # bytes


class Tally(msgspec.Struct):
    """What some kills cost.

    Attributes:
        kills: Processes that were killed with SIGKILL at some moment.
        cuts: Processes that were killed in the middle of a write.
        finished: Processes that were done before they were killed.
        committed: Records that a writer reported as stored, or that a reader saw.
        lost: Of these, records that were gone after a later kill.
        doubled: Records that the store held twice.
        again: Records that were in the store when they were measured.
        torn: Kills and cuts that left part of a line.
        repaired: Of these, tails that the next writer moved out of the store.
    """

    kills: int = 0
    cuts: int = 0
    finished: int = 0
    committed: int = 0
    lost: int = 0
    doubled: int = 0
    again: int = 0
    torn: int = 0
    repaired: int = 0


def run_and_kill(
    work: Callable[[Say], None], seconds: float, most_bytes: int | None
) -> tuple[list[str], int | None]:
    """Run ``work`` in a process and kill it; the whole lines that it said, and the signal that ended it."""
    reading, writing = os.pipe()
    if not (child := os.fork()):
        try:
            if most_bytes is not None:
                signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
                resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
                resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
            work(lambda line: os.write(writing, f"{line}\n".encode()))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writing)
    said, deadline = b"", time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([reading], [], [], left)[0]:
            if not (chunk := os.read(reading, 1 << 16)):
                break
            said += chunk
    os.kill(child, signal.SIGKILL)
    with os.fdopen(reading, "rb") as rest:
        said += rest.read()
    _, status = os.waitpid(child, 0)
    ended_by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    assert ended_by in {signal.SIGKILL, signal.SIGXFSZ} or os.WEXITSTATUS(status) == 0
    return said.decode().split("\n")[:-1], ended_by


class Witness:
    """Watches one store over many kills."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self._path, self._tally = path, tally
        self._known: set[str] = set()
        self._tail = b""

    def run_and_kill(self, work: Callable[[Say], None], chance: random.Random, seconds: float) -> bool:
        """Run a writer that says ``begin KEY`` and ``stored KEY``, kill it and look; False if it was done."""
        tally, before = self._tally, set(self._known)
        size = self._path.stat().st_size if self._path.exists() else 0
        if chance.random() < _CUT_SHARE:
            lines, ended_by = run_and_kill(work, 10.0, size + chance.randrange(1, _LONGEST_CUT))
        else:
            lines, ended_by = run_and_kill(work, chance.uniform(0.0, seconds), None)
        words = [line.split() for line in lines]
        self._known |= {key for what, key in words if what == "stored"}
        tally.again += len(before & {key for what, key in words if what == "begin"})
        tally.kills += ended_by == signal.SIGKILL
        tally.cuts += ended_by == signal.SIGXFSZ
        tally.finished += ended_by is None
        keys = [m.key for m in read_records(self._path)] if self._path.exists() else []
        tally.lost += len(self._known - set(keys))
        tally.doubled += len(keys) - len(set(keys))
        self._known |= set(keys)
        self._look_for_torn_tail()
        return ended_by is not None

    def _look_for_torn_tail(self) -> None:
        content = self._path.read_bytes() if self._path.exists() else b""
        tail = content[content.rfind(b"\n") + 1 :]
        if self._tail and tail != self._tail:
            self._tally.repaired += self._tail in Path(f"{self._path}.torn").read_bytes()
        self._tally.torn += bool(tail) and tail != self._tail
        self._tail = tail

    def close(self) -> None:
        """Open the store once more; a tail that is there must go then."""
        if self._path.exists():
            RecordStore(self._path).close()
            self._look_for_torn_tail()
        self._tally.committed += len(self._known)


def kill_campaigns(kills: int, seed: int, root: Path, seconds: float = 0.06) -> Tally:
    """Kill the campaign loop; each campaign, at its end, must hold what an uninterrupted one does."""
    chance, tally = random.Random(seed), Tally()
    folder = root / "whole"
    Campaign(LONG, FakeCollector(), CampaignFolder(folder), draw_tiles).run()
    whole = stored(CampaignFolder(folder)), files(folder)

    def collect(say: Say) -> None:
        known = {m.key for m in read_records(folder / "measurements.jsonl")} if begun() else set()

        def acknowledge(measurement: Measurement) -> None:
            if measurement.key not in known:
                say(f"stored {measurement.key}")

        collector = FakeCollector(0.001, before_batch=lambda batch: [say(f"begin {r.key}") for r in batch])
        Campaign(LONG, collector, CampaignFolder(folder), draw_tiles).run(on_measurement=acknowledge)

    def begun() -> bool:
        return (folder / "measurements.jsonl").exists()

    while tally.kills < kills:
        folder = root / f"killed-{tally.finished}"
        witness = Witness(folder / "measurements.jsonl", tally)
        longest = seconds
        while tally.kills < kills and witness.run_and_kill(collect, chance, longest):
            longest *= _LONGER  # until a campaign ends, on a busy machine too
        Campaign(LONG, FakeCollector(), CampaignFolder(folder), draw_tiles).run()
        witness.close()
        found = stored(CampaignFolder(folder)), files(folder)
        found[1].pop("measurements.jsonl.torn", None)
        assert found == whole, "a campaign that was killed must end like one that was not"
    return tally


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary:
        print(json.dumps(msgspec.to_builtins(kill_campaigns(int(sys.argv[1]), 0, Path(temporary)))))
