"""Appends fake measurements, three at a time and never one twice, and tells each key once it is on disk."""

import os
import sys
from pathlib import Path
from typing import Protocol

from costmodel.records import Candidate, Config, Device, Measurement, Outcome, Platform, RecordStore, Workload

DEVICE = Device("Test GPU", "cuda", "sm_90", 132, 1980.0)
WORKLOAD = Workload.parse("matmul-m128-n768-k3072")


class HasFileno(Protocol):
    """A stream or a pipe."""

    def fileno(self) -> int: ...


def measurement(number: int) -> Measurement:
    # Many decisions make a line long enough to be cut in the middle.
    config = Config({"number": number} | {f"decision{i}": i * number for i in range(100)})
    return Measurement(
        candidate=Candidate(WORKLOAD, "fake-1", config),
        platform=Platform(DEVICE, "whole", 132, 132),
        outcome=Outcome.OK,
        latencies_s=(1e-6 * (number + 1),),
        runs_per_repeat=1,
        measured_at="2026-11-21T10:00:00+00:00",
    )


def append_until_killed(path: Path, listener: HasFileno) -> None:
    """Append, and write lines to the file descriptor of ``listener``: that the store is open, and keys."""

    def say(*words: str) -> None:
        os.write(listener.fileno(), f"{' '.join(words)}\n".encode())

    with RecordStore(path) as store:
        say("open")
        batch: list[Measurement] = []
        for number in range(len(store.keys()), sys.maxsize):
            batch.append(measurement(number))
            if len(batch) == 3:
                fresh = [m for m in batch if m.key not in store]
                store.append(fresh)
                say(*(m.key for m in fresh))
                batch.clear()


if __name__ == "__main__":
    append_until_killed(Path(sys.argv[1]), sys.stdout)
