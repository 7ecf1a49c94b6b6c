import math
from collections.abc import Iterator
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from shutil import which

import pytest

pytest.importorskip("tvm")

import held_jobs
from shared_runner import check_shared

from costmodel.collector import CudaRunner
from costmodel.collector.runners._base import Request
from costmodel.collector.runners._mps import MpsDaemon
from costmodel.kernels import sample_candidates
from costmodel.records import Candidate, Outcome, Workload
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS
from costmodel.testing import RUNNER_CHECKS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not Path("/dev/nvidiactl").exists(),
        reason="needs an NVIDIA GPU with a driver for CUDA 13, and the extras cuda and tvm",
    ),
    pytest.mark.white_box,
]

SMALL = Workload.parse("matmul-m64-n64-k64")
LARGE = Workload.parse("matmul-m1024-n1024-k1024")
BUDGETS = (8, 16, 24, 32, 40, 48, 64, 80, 96, 112, 128, 132)  # on a GPU with 132 SMs


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign") / "kernels"


@pytest.fixture(scope="module")
def runner(kernels: Path) -> Iterator[CudaRunner]:
    with CudaRunner(kernels=kernels) as opened:
        yield opened


@pytest.fixture(scope="module")
def candidates(runner: CudaRunner) -> list[Candidate]:
    return runner.draw(sample_candidates, SMALL, 4, 0).result()


@pytest.fixture(scope="module")
def many_blocks(runner: CudaRunner) -> list[Candidate]:
    """Four kernels with the most blocks: all that there is to tell of a budget shows in them."""
    drawn = runner.draw(sample_candidates, LARGE, 32, 0).result()
    chosen = sorted(drawn, key=lambda c: c.launches[0].blocks)[-4:]
    assert chosen[-1].launches[0].blocks > 8 * runner.device.sms
    return chosen


@pytest.mark.parametrize("check", RUNNER_CHECKS)
def test_cuda_runner_keeps_the_contract(check, runner, candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    check_shared(check, runner, candidates, 8, monkeypatch)


def test_machine_code_is_told_of_what_was_built(runner: CudaRunner, candidates: list[Candidate]) -> None:
    found = runner.machine_code(candidates)
    measured = runner.measure(candidates, runner.platform(16))
    for code, measurement in zip(found, measured, strict=True):
        assert code is not None
        assert code.registers == max(each.registers_per_thread for each in measurement.resources)


def test_sixteen_sms_are_granted_as_asked(runner: CudaRunner) -> None:
    platform = runner.platform(16)
    assert (platform.sms_requested, platform.sms_granted, platform.isolation) == (16, 16, "green_context")


def test_a_whole_gpu_is_not_a_partition(runner: CudaRunner) -> None:
    assert runner.platform() == runner.platform(runner.device.sms)
    assert runner.platform().isolation == "whole"


def test_a_budget_confines_kernels_with_many_blocks(runner: CudaRunner, many_blocks) -> None:
    (small,) = runner.measure(many_blocks[-1:], runner.platform(8))
    (whole,) = runner.measure(many_blocks[-1:], runner.platform())
    assert small.outcome is whole.outcome is Outcome.OK
    assert small.kernel_hash == whole.kernel_hash != ""
    # Sixteen times fewer SMs on an H100: a bound by memory would still leave a factor of two.
    assert small.latency_s > 2 * whole.latency_s


def test_a_batch_over_all_budgets(runner: CudaRunner, many_blocks) -> None:
    if runner.device.sms != BUDGETS[-1]:
        pytest.skip(f"the budgets are those of a GPU with {BUDGETS[-1]} SMs")
    platforms = [runner.platform(sms) for sms in BUDGETS]
    assert [platform.sms_granted for platform in platforms] == list(BUDGETS)
    requests = [Request(c, platform) for platform in platforms for c in many_blocks]
    measured = runner.submit(requests).result()
    assert [m.key for m in measured] == [request.key for request in requests]
    assert {m.outcome for m in measured} == {Outcome.OK}
    assert all(m.co_runners == () for m in measured)
    assert all(m.before.clock_mhz > 0 for m in measured)
    # A GPU may run slower than its highest clock, but not by half; a launch in a graph takes some 1 us.
    assert all(0.5 < m.before.spin_clock_mhz / runner.device.clock_mhz < 1.05 for m in measured)
    assert all(2e-7 < m.before.launch_s < 1e-5 for m in measured)
    assert len({m.board for m in measured}) == 1
    for candidate in many_blocks:
        own = [m.latency_s for m in measured if m.candidate == candidate]
        # More SMs are never much slower, and in the end several times as fast.
        assert all(more < 1.1 * fewer for fewer, more in pairwise(own))
        assert own[-1] < own[0] / 3


def test_interleaved_kernels_measure_what_they_measure_alone(runner: CudaRunner, many_blocks) -> None:
    platform = runner.platform(32)
    together = runner.submit([Request(c, platform) for c in many_blocks]).result()
    alone = runner.measure(many_blocks, platform, visit=1)
    ratios = [a.latency_s / t.latency_s for a, t in zip(alone, together, strict=True)]
    assert math.exp(sum(map(math.log, ratios)) / len(ratios)) == pytest.approx(1.0, abs=0.05)


def test_kernels_on_two_partitions_name_each_other(runner: CudaRunner, many_blocks) -> None:
    platform = runner.platform(32)
    requests = [Request(c, platform, partitions=2) for c in many_blocks]
    measured = runner.submit(requests).result()
    ids = {c.candidate_id for c in many_blocks}
    assert [m.key for m in measured] == [request.key for request in requests]
    for m in measured:
        assert m.outcome is Outcome.OK
        assert m.co_runners
        assert set(m.co_runners) <= ids
    alone = runner.measure(many_blocks, platform)
    # Two partitions share the memory, but not the SMs.
    assert all(m.latency_s < 1.5 * a.latency_s for m, a in zip(measured, alone, strict=True))
    assert not {m.key for m in measured} & {a.key for a in alone}


def test_a_lone_kernel_on_two_partitions_has_itself_as_co_runner(runner: CudaRunner, candidates) -> None:
    (measured,) = runner.submit([Request(candidates[0], runner.platform(32), partitions=2)]).result()
    assert measured.outcome is Outcome.OK
    assert measured.co_runners == (candidates[0].candidate_id,)


@pytest.mark.skipif(which("nvidia-cuda-mps-control") is None, reason="needs the MPS control daemon")
def test_mps_grants_about_what_was_asked_and_kernels_run_there(runner: CudaRunner, many_blocks) -> None:
    latencies = []
    for sms in (16, 64):
        platform = runner.platform(sms, "mps")
        assert (platform.isolation, platform.sms_requested) == ("mps", sms)
        assert abs(platform.sms_granted - sms) <= 4
        (measured,) = runner.submit([Request(many_blocks[-1], platform)]).result()
        assert measured.outcome is Outcome.OK, measured.error
        latencies.append(measured.latency_s)
    assert latencies[0] > 2 * latencies[1]
    # What follows outside of MPS is not confined by it.
    (whole,) = runner.measure(many_blocks[-1:], runner.platform())
    assert whole.latency_s < latencies[1]


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An MPS daemon that serves all processes, and limits none."""
    if which("nvidia-cuda-mps-control") is None:
        pytest.skip("needs the MPS control daemon")
    with MpsDaemon() as daemon:
        for name, value in daemon.environment(100).items():
            monkeypatch.setenv(name, value)
        yield


def test_lanes_of_several_processes_have_no_sm_in_common() -> None:
    """Without MPS, under which the SMs that a process has are numbered from 0 in each."""
    lanes = [range(0, 32), range(32, 64), range(64, 80), range(80, 128)]
    with get_context("spawn").Pool(len(lanes)) as pool:
        counted = pool.map(held_jobs.sms_of_lane, lanes, chunksize=1)
    assert [len(ids) for ids in counted] == [32, 32, 16, 48]
    assert len(frozenset().union(*counted)) == 128


@pytest.mark.usefixtures("served")
def test_lanes_that_are_full_do_not_wait_for_each_other() -> None:
    lanes, spawn = [range(0, 32), range(32, 64), range(64, 80), range(80, 128)], get_context("spawn")
    meeting = spawn.Barrier(len(lanes), timeout=30.0)
    with spawn.Pool(len(lanes), held_jobs.meet_at, (meeting,)) as pool:
        seconds = pool.map(held_jobs.seconds_to_fill, lanes, chunksize=1)
    assert max(seconds) < 0.15  # 0.1 s at 2 GHz; two after each other take 0.2


@pytest.mark.usefixtures("served")
def test_on_a_lane_a_kernel_takes_about_what_it_takes_alone(runner, kernels: Path, many_blocks) -> None:
    alone = runner.measure(many_blocks, runner.platform(32))
    with CudaRunner(kernels=kernels, lanes=True) as on_lane:
        beside = on_lane.measure(many_blocks, on_lane.platform(32))
        (whole,) = on_lane.measure(many_blocks[:1], on_lane.platform())
    assert {(m.outcome, m.co_runners) for m in beside} == {(Outcome.OK, UNKNOWN_CO_RUNNERS)}
    assert whole.co_runners == ()
    for one, other in zip(beside, alone, strict=True):
        assert one.latency_s == pytest.approx(other.latency_s, rel=0.25)


def test_another_runner_uses_the_kernels_that_are_there(runner, candidates, kernels: Path) -> None:
    first = runner.measure(candidates, runner.platform(8))
    before = {path: path.stat().st_mtime_ns for path in kernels.rglob("*.so")}
    with CudaRunner(kernels=kernels) as second:
        again = second.measure(candidates, second.platform(8))
    assert [m.outcome for m in again] == [Outcome.OK] * len(candidates)
    assert [m.kernel_hash for m in again] == [m.kernel_hash for m in first]
    assert {path: path.stat().st_mtime_ns for path in kernels.rglob("*.so")} == before
