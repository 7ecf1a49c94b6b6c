from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("tvm")

from shared_runner import check_shared

from costmodel.collect import CudaRunner
from costmodel.records import Candidate, Outcome, Workload
from costmodel.testing import RUNNER_CHECKS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(
        not Path("/dev/nvidiactl").exists(),
        reason="needs an NVIDIA GPU with a driver for CUDA 13, and the extras cuda and tvm",
    ),
]

SMALL = Workload.parse("matmul-m64-n64-k64")
LARGE = Workload.parse("matmul-m1024-n1024-k1024")


@pytest.fixture(scope="module")
def runner() -> Iterator[CudaRunner]:
    with CudaRunner() as opened:
        yield opened


@pytest.fixture(scope="module")
def candidates(runner: CudaRunner) -> list[Candidate]:
    return runner.draw(sample_candidates, SMALL, 4, 0).result()


@pytest.mark.parametrize("check", RUNNER_CHECKS)
def test_cuda_runner_keeps_the_contract(check, runner, candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    check_shared(check, runner, candidates, 8, monkeypatch)


def test_sixteen_sms_are_granted_as_asked(runner: CudaRunner) -> None:
    platform = runner.platform(16)
    assert (platform.sms_requested, platform.sms_granted, platform.isolation) == (16, 16, "green_context")


def test_a_whole_gpu_is_not_a_partition(runner: CudaRunner) -> None:
    assert runner.platform() == runner.platform(runner.device.sms)
    assert runner.platform().isolation == "whole"


def test_a_budget_confines_kernels_with_many_blocks(runner: CudaRunner) -> None:
    drawn = runner.draw(sample_candidates, LARGE, 32, 0).result()
    (many,) = sorted(drawn, key=lambda c: c.launches[0].blocks)[-1:]
    assert many.launches[0].blocks > 8 * runner.device.sms
    (small,) = runner.measure([many], runner.platform(8))
    (whole,) = runner.measure([many], runner.platform())
    assert small.outcome is whole.outcome is Outcome.OK
    assert small.kernel_hash == whole.kernel_hash != ""
    # Sixteen times fewer SMs on an H100: a bound by memory would still leave a factor of two.
    assert small.latency_s > 2 * whole.latency_s
