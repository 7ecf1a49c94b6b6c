"""In which order kernels are built."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fake_records import fake_candidate
from msgspec.structs import replace

from costmodel.collect.build import Builders, _builders, compile_effort
from costmodel.records import Candidate


class FakeWorkers:
    """Takes jobs and does none."""

    def __init__(self, *_: Any) -> None:
        self.jobs: list[Any] = []

    def submit(self, function: Any, *arguments: Any, **_: Any) -> "Future[Any]":
        self.jobs.append((function.__name__, arguments[0]))
        return Future()

    def close(self) -> None: ...


def unrolled(tile: int, steps: int) -> Candidate:
    candidate = fake_candidate(tile=tile)
    launches = tuple(replace(launch, unroll_steps=steps, local_bytes=64) for launch in candidate.launches)
    return replace(candidate, launches=launches)


def test_what_takes_longest_is_built_first_and_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(_builders, "Workers", FakeWorkers)
    builders = Builders("cuda", "sm_90", 2, tmp_path, tmp_path, 1.0)
    short, long, unknown = unrolled(1, 16), unrolled(2, 512), replace(fake_candidate(tile=4), launches=())
    assert compile_effort(long) > compile_effort(short) > compile_effort(unknown) == 0
    builders.futures(short)
    builders.prefetch([unknown, short, long])
    jobs = [job for name, job in builders._workers.jobs if name == "build_kernel"]
    assert jobs == [short, long, unknown]
