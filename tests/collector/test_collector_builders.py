"""In which order kernels are built."""

from concurrent.futures import Future
from pathlib import Path
from typing import Any

from fake_records import fake_candidate
from msgspec.structs import replace

from costmodel.collector.build import Builders, compile_effort
from costmodel.kernels.metaschedule import MetaSchedule
from costmodel.records import Candidate


class Fake(MetaSchedule):
    """Of which the candidates are."""

    name = "fake"


class FakeWorkers:
    """Takes jobs and does none."""

    shares_files = True

    def __init__(self) -> None:
        self.jobs: list[Any] = []

    def submit(self, function: Any, *arguments: Any, **_: Any) -> "Future[Any]":
        self.jobs.append((function.__name__, arguments))
        return Future()


def unrolled(tile: int, steps: int) -> Candidate:
    candidate = fake_candidate(tile=tile)
    launches = tuple(replace(launch, unroll_steps=steps, local_bytes=64) for launch in candidate.launches)
    return replace(candidate, launches=launches)


def test_what_takes_longest_is_built_first_and_once(tmp_path: Path) -> None:
    workers = FakeWorkers()
    builders = Builders(workers, [Fake()], "cuda", "sm_90", tmp_path, 1.0)
    short, long, unknown = unrolled(1, 16), unrolled(2, 512), replace(fake_candidate(tile=4), launches=())
    assert compile_effort(long) > compile_effort(short) > compile_effort(unknown) == 0
    builders.prefetch([short])
    builders.prefetch([unknown, short, long])
    jobs = [candidate for name, (_, candidate, *_) in workers.jobs if name == "build_kernel"]
    assert jobs == [short, long, unknown]
