from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("tvm")

import psutil
from shared_runner import check_shared, failing_like

from costmodel.collector import CpuRunner, Timing
from costmodel.collector.runners._base import Request
from costmodel.errors import CostModelError
from costmodel.kernels import sample_candidates
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.records import Candidate, Measurement, Outcome, Workload
from costmodel.records._platform import TargetKind
from costmodel.testing import RUNNER_CHECKS

pytestmark = [pytest.mark.tvm, pytest.mark.white_box]

WORKLOAD = Workload.parse("matmul-m32-n32-k32")
TIMING = Timing(repeats=3, most_repeats=5)


class CompiledBy(MetaSchedule):
    """MetaSchedule with a compiler of some version."""

    def __init__(self, version: str) -> None:
        self.version = version

    def compilers(self, kind: TargetKind) -> dict[str, str]:
        return {"compiler": self.version}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("campaign") / "kernels"


@pytest.fixture(scope="module")
def runner(kernels: Path) -> Iterator[CpuRunner]:
    with CpuRunner(timing=TIMING, kernels=kernels) as opened:
        yield opened


@pytest.fixture(scope="module")
def candidates(runner: CpuRunner) -> list[Candidate]:
    return runner.draw(sample_candidates, WORKLOAD, 4, 0).result()


@pytest.mark.parametrize("check", RUNNER_CHECKS)
def test_cpu_runner_keeps_the_contract(check, runner, candidates, monkeypatch: pytest.MonkeyPatch) -> None:
    check_shared(check, runner, candidates, 1, monkeypatch)


def test_a_worker_draws_what_this_process_draws(runner: CpuRunner, candidates: list[Candidate]) -> None:
    assert candidates == sample_candidates(WORKLOAD, "cpu", 4, 0)
    more = runner.draw(sample_candidates, WORKLOAD, 2, 1, known=candidates).result()
    assert more == sample_candidates(WORKLOAD, "cpu", 2, 1, known=candidates)


def test_a_measurement_holds_all_repeats_and_where_it_was_made(runner, candidates) -> None:
    (measurement,) = runner.measure(candidates[:1], runner.platform(1), visit=1)
    assert measurement.outcome is Outcome.OK
    assert TIMING.repeats <= len(measurement.latencies_s) <= TIMING.most_repeats
    assert measurement.visit == 1
    assert measurement.attempts in {1, 2}
    assert measurement.runs_per_repeat > 1
    assert (measurement.platform.isolation, measurement.platform.device.kind) == ("threads", "cpu")
    assert set(measurement.platform.software) == {"tvm", "python"}


def test_a_batch_may_mix_workloads_budgets_visits_and_failures(runner, candidates) -> None:
    (other,) = runner.draw(sample_candidates, Workload.parse("softmax-m16-n16"), 1, 0).result()
    one, all_of_them = runner.platform(1), runner.platform()
    requests = [
        Request(candidates[0], one),
        Request(other, one),
        Request(candidates[1], all_of_them, visit=1),
        Request(failing_like(other), one),
        Request(candidates[0], all_of_them),
        Request(candidates[1], one),
    ]
    measured = runner.submit(requests).result()
    assert [m.key for m in measured] == [request.key for request in requests]
    assert [m.outcome is Outcome.OK for m in measured] == [True, True, True, False, True, True]
    assert all(m.co_runners == () for m in measured)


def test_a_batch_that_waits_can_be_cancelled(runner: CpuRunner) -> None:
    waiting = runner.draw(sample_candidates, Workload.parse("softmax-m16-n48"), 1, 0).result()
    future = runner.submit([Request(waiting[0], runner.platform(1))])  # not built yet
    assert future.cancel()
    (measurement,) = runner.measure(waiting, runner.platform(1))
    assert measurement.outcome is Outcome.OK


def test_an_invalid_config_says_what_is_wrong(runner, candidates) -> None:
    (measurement,) = runner.measure([failing_like(candidates[0])], runner.platform(1))
    assert measurement.outcome is Outcome.INVALID_CONFIG
    assert "sketch must be in [0," in measurement.error


@pytest.mark.parametrize("name", ["softmax-m16-n16", "conv2d-n1-c4-h8-w8-o4-k3-s1", "layer_norm-m16-n16"])
def test_scheduled_kernels_agree_with_the_reference(runner: CpuRunner, name: str) -> None:
    drawn = runner.draw(sample_candidates, Workload.parse(name), 2, 1).result()
    measured: list[Measurement] = runner.measure(drawn, runner.platform())
    assert [m.outcome for m in measured] == [Outcome.OK] * 2


def test_no_worker_imports_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is installed, TVM would, which takes a worker three times as long to start."""
    (tmp_path / "torch.py").write_text("raise RuntimeError('torch is imported')")
    monkeypatch.syspath_prepend(tmp_path)
    with CpuRunner(timing=TIMING, build_workers=1) as alone:
        drawn = alone.draw(sample_candidates, WORKLOAD, 1, 0).result()
        (measurement,) = alone.measure(drawn, alone.platform(1))
    assert (measurement.outcome, measurement.error) == (Outcome.OK, "")


def test_workloads_are_spread_over_several_devices() -> None:
    """Two that are the same CPU here."""
    with CpuRunner(timing=TIMING, devices=2) as both:
        assert both.description.startswith("Measuring on 2 x ")
        drawn = [
            c
            for name in ("softmax-m16-n16", "softmax-m16-n32", "softmax-m16-n64")
            for c in both.draw(sample_candidates, Workload.parse(name), 2, 0).result()
        ]
        measured = both.measure(drawn, both.platform(1))
    assert [m.candidate for m in measured] == drawn
    assert [m.outcome for m in measured] == [Outcome.OK] * 6


def test_another_runner_uses_the_kernels_that_are_there(runner, candidates, kernels: Path) -> None:
    runner.measure(candidates, runner.platform(1))
    before = {path: path.stat().st_mtime_ns for path in kernels.rglob("*.so")}
    with CpuRunner(timing=TIMING, kernels=kernels) as second:
        measured = second.measure(candidates, second.platform(1))
    assert [m.outcome for m in measured] == [Outcome.OK] * len(candidates)
    assert {path: path.stat().st_mtime_ns for path in kernels.rglob("*.so")} == before
    assert {candidate.candidate_id for candidate in candidates} <= {path.stem for path in before}


def test_kernels_of_another_compiler_are_kept_apart(tmp_path: Path) -> None:
    for version in ("1", "2", "1"):
        CpuRunner(sources=[CompiledBy(version)], kernels=tmp_path, build_workers=1).close()
    assert len(list(tmp_path.iterdir())) == 2


def test_kernels_must_go_where_files_can_be_made_before_a_device_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    before = set(psutil.Process().children())
    with pytest.raises(CostModelError, match="is a file, not a folder"):
        CpuRunner(kernels=tmp_path / "file" / "kernels", build_workers=1)
    assert set(psutil.Process().children()) == before
