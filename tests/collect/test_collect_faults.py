"""Each fault costs one candidate, and the next one is measured. All faults happen in real processes."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("tvm")

import planted_faults
import psutil
from planted_faults import with_fault

from costmodel.collect import CpuRunner
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Outcome, Workload

pytestmark = pytest.mark.tvm

MATMUL = Workload.parse("matmul-m32-n32-k32")
RUNNER = "costmodel.collect._tvm_runner"


@pytest.fixture(autouse=True)
def _planted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{RUNNER}.build_kernel", planted_faults.build)
    monkeypatch.setattr(f"{RUNNER}.measure_kernel", planted_faults.measure_where_open)


@pytest.fixture(scope="module")
def runner() -> Iterator[CpuRunner]:
    with CpuRunner(build_timeout_s=20.0, run_timeout_s=10.0) as opened:
        yield opened


@pytest.fixture(scope="module")
def fresh(runner: CpuRunner) -> Iterator[Candidate]:
    """Candidates that no test has built yet."""
    return iter(runner.draw(sample_candidates, MATMUL, 32, 0).result())


@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        ("compiler fails", Outcome.COMPILE_ERROR, "No space left on device"),
        ("build hangs", Outcome.TIMEOUT, "the build took more than 20 s"),
        ("build dies", Outcome.COMPILE_ERROR, "the build worker died \\(exit code 7\\)"),
        ("kernel writes nothing", Outcome.WRONG_RESULT, "output differs"),
        ("kernel raises", Outcome.LAUNCH_ERROR, "too many resources"),
        ("kernel hangs", Outcome.TIMEOUT, "the kernel took more than 10 s"),
        ("kernel dies", Outcome.LAUNCH_ERROR, r"the device worker died \(exit code -6\)"),
    ],
)
def test_a_fault_costs_one_candidate(runner, fresh, fault: str, outcome: Outcome, reason: str) -> None:
    failing, running = with_fault(next(fresh), fault), next(fresh)
    failed, ran = runner.measure([failing, running], runner.platform(1))
    assert failed.outcome is outcome
    assert re.search(reason, failed.error), failed.error
    assert failed.latencies_s == ()
    assert (ran.outcome, ran.error) == (Outcome.OK, "")


def test_an_output_that_is_slightly_off_is_wrong(runner, fresh, monkeypatch) -> None:
    monkeypatch.setattr(f"{RUNNER}.write_reference", planted_faults.write_wrong_reference)
    failing = runner.draw(sample_candidates, Workload.parse("softmax-m16-n32"), 1, 0).result()
    failed, ran = runner.measure([*failing, next(fresh)], runner.platform(1))
    assert failed.outcome is Outcome.WRONG_RESULT
    assert ran.outcome is Outcome.OK


def test_a_reference_whose_worker_dies_is_computed_again(runner, monkeypatch) -> None:
    monkeypatch.setattr(f"{RUNNER}.write_reference", planted_faults.write_reference_or_die)
    drawn = runner.draw(sample_candidates, Workload.parse("softmax-m32-n16"), 2, 0).result()
    failed, ran = runner.measure(drawn, runner.platform(1))
    assert failed.outcome is Outcome.COMPILE_ERROR
    assert failed.error == "the reference's worker died (exit code 7)"
    assert ran.outcome is Outcome.OK


def test_workers_killed_between_two_jobs_are_replaced(runner, fresh) -> None:
    runner.measure([next(fresh)], runner.platform(1))
    workers = [child for child in psutil.Process().children() if "spawn_main" in "".join(child.cmdline())]
    assert len(workers) >= 2
    for worker in workers:
        worker.kill()
    runner.measure([next(fresh)], runner.platform(1))  # lost where the deaths were not seen in time
    (ran,) = runner.measure([next(fresh)], runner.platform(1))
    assert ran.outcome is Outcome.OK


def test_a_device_that_cannot_be_opened_is_the_users_to_mend(monkeypatch) -> None:
    monkeypatch.setattr(f"{RUNNER}.describe_device", planted_faults.refuse_to_open)
    with pytest.raises(CostModelError, match="The cpu device cannot be opened: no such device"):
        CpuRunner()


def test_a_missing_compiler_is_the_users_to_mend(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CostModelError, match=r"must have a C\+\+ compiler .* Install one"):
        CpuRunner()


def test_a_draw_whose_worker_dies_says_so(runner, fresh, monkeypatch) -> None:
    monkeypatch.setattr(f"{RUNNER}.sample_candidates", planted_faults.die)
    with pytest.raises(CostModelError, match=r"it died \(exit code 7\)"):
        runner.draw(sample_candidates, next(fresh).workload, 1, 0).result(60)
