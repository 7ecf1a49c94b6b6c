from collections.abc import Iterator

import pytest

pytest.importorskip("tvm")

from shared_runner import check_shared, failing_like

from costmodel.collect import CpuRunner
from costmodel.records import Candidate, Measurement, Outcome, Workload
from costmodel.spaces import sample_candidates
from costmodel.testing import RUNNER_CHECKS

pytestmark = pytest.mark.tvm

WORKLOAD = Workload.parse("matmul-m32-n32-k32")


@pytest.fixture(scope="module")
def runner() -> Iterator[CpuRunner]:
    with CpuRunner() as opened:
        yield opened


@pytest.fixture(scope="module")
def candidates(runner: CpuRunner) -> list[Candidate]:
    return runner.draw(sample_candidates, WORKLOAD, 4, 0).result()


@pytest.mark.parametrize("check", RUNNER_CHECKS)
def test_cpu_runner_keeps_the_contract(check, runner, candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    check_shared(check, runner, candidates, 1, monkeypatch)


def test_a_worker_draws_what_this_process_draws(runner: CpuRunner, candidates: list[Candidate]) -> None:
    assert candidates == sample_candidates(WORKLOAD, "cpu", 4, 0)


def test_a_measurement_holds_all_repeats_and_where_it_was_made(runner, candidates) -> None:
    (measurement,) = runner.measure(candidates[:1], runner.platform(1), visit=1)
    assert measurement.outcome is Outcome.OK
    assert (len(measurement.latencies_s), measurement.visit) == (5, 1)
    assert measurement.runs_per_repeat > 1
    assert (measurement.platform.isolation, measurement.platform.device.kind) == ("threads", "cpu")
    assert set(measurement.platform.software) == {"tvm", "python"}


def test_an_invalid_config_says_what_is_wrong(runner, candidates) -> None:
    (measurement,) = runner.measure([failing_like(candidates[0])], runner.platform(1))
    assert measurement.outcome is Outcome.INVALID_CONFIG
    assert "sketch must be in [0," in measurement.error


@pytest.mark.parametrize("name", ["softmax-m16-n16", "conv2d-n1-c4-h8-w8-o4-k3-s1", "layer_norm-m16-n16"])
def test_scheduled_kernels_agree_with_the_unscheduled_program(runner: CpuRunner, name: str) -> None:
    drawn = runner.draw(sample_candidates, Workload.parse(name), 2, 1).result()
    measured: list[Measurement] = runner.measure(drawn, runner.platform())
    assert [m.outcome for m in measured] == [Outcome.OK] * 2
