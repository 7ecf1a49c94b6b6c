"""In which order kernels are built, and that each is built once."""

import time
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from fake_records import fake_candidate
from msgspec.structs import replace

from costmodel.collector import LocalEngine
from costmodel.collector._build import reference_name
from costmodel.collector._builders import Builders, compile_effort
from costmodel.kernels._artifact import Built
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Candidate, Config, Outcome, Workload
from costmodel.records._platform import TargetKind

pytestmark = pytest.mark.white_box


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
    jobs = [candidate for name, (_, candidate, *_) in workers.jobs if name == "build_once"]
    assert jobs == [short, long, unknown]


class Slow(Fake):
    """Notes each build, which takes a while."""

    def prepare(self, kind: TargetKind, architecture: str) -> None:
        """Nothing to prepare."""

    def build(self, candidate: Candidate, kind: TargetKind, architecture: str, folder: Path) -> Built:
        artifact = folder / f"{candidate.candidate_id}{self.artifact}"
        if not artifact.exists():
            with (folder / "builds.log").open("a") as log:
                log.write(f"{candidate.candidate_id}\n")
            time.sleep(1.0)
            artifact.write_bytes(b"code")
        return Built(Outcome.OK, artifact)


def test_processes_that_share_a_folder_build_each_kernel_once(tmp_path: Path) -> None:
    candidates = [fake_candidate(tile=tile) for tile in (1, 2)]
    with LocalEngine(1) as one, LocalEngine(1) as other:
        for engine in (one, other):
            engine.submit(divmod, 7, 2).result(60)  # their processes have started
        sharing = [
            Builders(engine, [Slow()], "cuda", "sm_90", tmp_path, timeout_s=60.0) for engine in (one, other)
        ]
        for builders in sharing:
            builders.prefetch(candidates)
        built = [builders.built(candidate)[0] for candidate in candidates for builders in sharing]
    assert {each.outcome for each in built} == {Outcome.OK}
    builds = (tmp_path / "sm_90" / "builds.log").read_text().split()
    assert sorted(builds) == sorted(candidate.candidate_id for candidate in candidates)


def test_right_outputs_are_those_of_the_family_as_it_is_now() -> None:
    transpose = Workload.parse("cuda.transpose-m64-n64")
    before = Candidate(transpose, "cuda-transpose-00000001", Config({"tile_x": 32}))
    after = replace(before, space="cuda-transpose-00000002")
    assert reference_name(before) != reference_name(after)
    operator = fake_candidate(tile=1)
    assert reference_name(operator) == reference_name(replace(operator, space="triton-matmul-00000001"))
