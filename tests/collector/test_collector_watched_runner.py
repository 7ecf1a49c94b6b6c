"""A runner beside a service."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from fake_service import FakeService

from costmodel.collector import RecordedRunner, ReplayRunner, ServiceWatch, WatchedRunner
from costmodel.collector.runners._watched_service import WatchedService
from costmodel.records import Measurement, Outcome, read_records
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS
from costmodel.testing import RUNNER_CHECKS, RunnerCase, gpu_landscape

pytestmark = pytest.mark.white_box


class Noting(ReplayRunner):
    """Serves records, works on eight at once, and notes what it is asked for."""

    in_flight = 8

    def __init__(self, measurements: list[Measurement]) -> None:
        super().__init__(measurements)
        self.asked: list[tuple[str, int]] = []

    def measure(self, candidates, platform, *, visit=0):
        self.asked.append(("measure", len(candidates)))
        return super().measure(candidates, platform, visit=visit)

    def prefetch(self, candidates):
        self.asked.append(("prefetch", len(candidates)))


@pytest.fixture
def watched(tmp_path: Path) -> Iterator[WatchedService]:
    with (
        FakeService(tmp_path) as service,
        closing(WatchedService(ServiceWatch(service.log, may_lose=0.25, window=300))) as watched,
    ):
        yield watched


@pytest.fixture(scope="module")
def records():
    workloads = ["matmul-m512-n512-k512"]
    return gpu_landscape(
        seed=3, workloads=workloads, configs_per_workload=60, sms=(32, 132)
    ).to_measurements()


def test_it_keeps_the_contract_of_runners(records, watched):
    at_32 = [m for m in records if m.platform.sms_granted == 32]
    failing = next(m.candidate for m in at_32 if m.outcome is not Outcome.OK)
    running = [m.candidate for m in at_32 if m.outcome is Outcome.OK]
    case = RunnerCase(lambda: WatchedRunner(ReplayRunner(records), watched), running[:3], failing, sms=32)
    for check in RUNNER_CHECKS:
        check(case)


def test_kernels_are_measured_one_by_one_and_none_is_built_ahead(records, watched):
    noting = Noting(records)
    runner = WatchedRunner(noting, watched)
    assert runner.in_flight == 1
    candidates = [m.candidate for m in records[:3]]
    runner.prefetch(candidates)
    measured = runner.measure(candidates, runner.platform(32))
    assert noting.asked == [("measure", 1)] * 3
    alone = ReplayRunner(records).measure(candidates, runner.platform(32))
    assert [m.latencies_s for m in measured] == [m.latencies_s for m in alone]
    assert runner.repeats is False
    assert runner.alone is runner


def test_what_ran_beside_a_service_is_not_taken_for_what_it_takes_alone(records, watched, tmp_path):
    beside = RecordedRunner(WatchedRunner(ReplayRunner(records), watched), tmp_path / "records.jsonl")
    (candidate, *_), on = [m.candidate for m in records if m.outcome is Outcome.OK], beside.platform(32)
    (measured,) = beside.measure([candidate], on)
    assert measured.co_runners == UNKNOWN_CO_RUNNERS
    assert beside.measure([candidate], on) == [measured]
    assert len(list(read_records(tmp_path / "records.jsonl"))) == 1
    later = RecordedRunner(ReplayRunner(records), tmp_path / "records.jsonl")
    (alone,) = later.measure([candidate], on)
    assert alone.co_runners == ()
    assert len(list(read_records(tmp_path / "records.jsonl"))) == 2


def test_who_measures_says_what_the_service_may_lose(records, watched):
    said = WatchedRunner(ReplayRunner(records), watched).description
    assert said.startswith("Replay: nothing is measured")
    assert said.endswith("Beside a service, whose p99 may rise by 25 %.")
