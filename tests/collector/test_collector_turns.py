"""Processes that measure on one device: in turns, or on SMs of their own. All of them are real, on a CPU."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("tvm")

import held_jobs

from costmodel.collector import CpuRunner, RecordedRunner, Timing
from costmodel.collector.runners._base import Request
from costmodel.collector.runners._bench import DeviceJobs
from costmodel.kernels import sample_candidates
from costmodel.liveness import SmLedger
from costmodel.records import Candidate, Measurement, Outcome, Workload
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS
from costmodel.threads import cpu_threads

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

WORKLOAD = Workload.parse("matmul-m32-n32-k32")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(scope="module")
def candidates(kernels: Path) -> list[Candidate]:
    """Candidates that are built."""
    with CpuRunner(kernels=kernels, build_workers=1) as runner:
        drawn = runner.draw(sample_candidates, WORKLOAD, 4, 0).result()
        assert {m.outcome for m in runner.measure(drawn, runner.platform(1))} == {Outcome.OK}
    return drawn


@contextmanager
def two_runners(kernels: Path, time: Callable[..., Any], **settings: Any) -> Iterator[list[CpuRunner]]:
    """Two runners, each with a process that holds the device."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                CpuRunner(
                    kernels=kernels,
                    build_workers=1,
                    run_timeout_s=300.0,
                    timing=Timing(precision=0.5),
                    device_jobs=DeviceJobs(time=time),
                    **settings,
                )
            )
            for _ in range(2)
        ]


def measure_at_once(runners: list[CpuRunner], candidates: list[Candidate], **how: Any) -> list[Measurement]:
    jobs = [
        runner.submit([Request(each, runner.platform(1), **how)]) for each in candidates for runner in runners
    ]
    return [measurement for job in jobs for measurement in job.result()]


def test_processes_take_turns_on_a_device(kernels, candidates, tmp_path: Path) -> None:
    with two_runners(kernels, partial(held_jobs.time_and_note, tmp_path)) as runners:
        for runner in runners:  # whose builders start
            runner.measure(candidates, runner.platform(1))
        measured = measure_at_once(runners, candidates)
    assert {(m.outcome, m.co_runners) for m in measured} == {(Outcome.OK, ())}
    notes = [path.read_text().splitlines() for path in tmp_path.iterdir()]
    assert [len(lines) for lines in notes] == [8, 8]
    times = sorted(tuple(map(float, line.split())) for lines in notes for line in lines)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(times))


def test_a_device_is_another_ones_while_a_process_makes_inputs_and_compares_outputs(
    kernels, candidates
) -> None:
    jobs = DeviceJobs(prepare=held_jobs.take_and_prepare, find_wrong=held_jobs.take_and_find_wrong)
    with CpuRunner(kernels=kernels, build_workers=1, run_timeout_s=30.0, device_jobs=jobs) as runner:
        measured = runner.measure(candidates[:1], runner.platform(1))
    assert [m.outcome for m in measured] == [Outcome.OK]


def test_a_kernel_whose_outputs_are_gone_does_not_count_as_right(kernels, candidates) -> None:
    jobs = DeviceJobs(find_wrong=held_jobs.find_wrong_too_late)
    with CpuRunner(kernels=kernels, build_workers=1, device_jobs=jobs) as runner:
        (measured,) = runner.measure(candidates[:1], runner.platform(1))
    assert measured.outcome is Outcome.LAUNCH_ERROR
    assert "the process that ran it is gone" in measured.error


@pytest.fixture
def own_ledger(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other test takes turns: one that wants the whole device would stand between two lanes."""
    ledger = partial(SmLedger, parent=tmp_path_factory.mktemp("ledger"))
    monkeypatch.setattr("costmodel.collector.runners._bench.SmLedger", ledger)


@pytest.mark.usefixtures("own_ledger")
@pytest.mark.skipif(cpu_threads() < 2, reason="needs two hardware threads")
def test_on_lanes_processes_measure_at_once_and_say_so(kernels, candidates, tmp_path: Path) -> None:
    time = partial(held_jobs.time_when_two_are_here, tmp_path)
    with two_runners(kernels, time, lanes=True) as runners:
        requests = [Request(candidates[0], runners[0].platform(1), lane=True)]
        for runner in runners:  # whose builders start: who waits for the other one does so for a while only
            runner.draw(sample_candidates, WORKLOAD, 1, 0).result()
        measured = measure_at_once(runners, candidates[:1], lane=True)
        assert len(list(tmp_path.iterdir())) == 2
        (whole,) = runners[0].measure(candidates[:1], runners[0].platform())
        (alone,) = runners[0].alone.measure(candidates[:1], runners[0].platform(1))
        assert "beside others; the best alone" in runners[0].description
        assert "beside" not in runners[0].alone.description
    assert {(m.outcome, m.co_runners) for m in measured} == {(Outcome.OK, UNKNOWN_CO_RUNNERS)}
    assert {m.key for m in measured} == {request.key for request in requests}
    assert (whole.outcome, whole.co_runners) == (Outcome.OK, ())
    assert (alone.outcome, alone.co_runners) == (Outcome.OK, ())
    assert alone.key == Request(candidates[0], alone.platform).key not in {m.key for m in measured}


@pytest.mark.skipif(cpu_threads() < 2, reason="needs two hardware threads")
def test_what_fails_on_a_lane_is_not_taken_to_fail_alone(kernels, candidates, tmp_path: Path) -> None:
    jobs = DeviceJobs(time=held_jobs.fault_on_lanes)
    with CpuRunner(kernels=kernels, build_workers=1, device_jobs=jobs, lanes=True) as runner:
        recorded, on = RecordedRunner(runner, tmp_path / "records.jsonl"), runner.platform(1)
        (beside,) = recorded.measure(candidates[:1], on)
        (alone,) = recorded.alone.measure(candidates[:1], on)
        assert recorded.measure(candidates[:1], on) == [alone]
    assert (beside.outcome, beside.co_runners) == (Outcome.LAUNCH_ERROR, UNKNOWN_CO_RUNNERS)
    assert beside.key == Request(candidates[0], on, lane=True).key
    assert (alone.outcome, alone.co_runners) == (Outcome.OK, ())
