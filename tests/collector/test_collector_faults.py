"""Each fault costs one candidate, and the next one is measured. All faults happen in real processes."""

import os
import re
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from functools import partial
from pathlib import Path

import pytest

pytest.importorskip("tvm")

import planted_faults
import psutil
from planted_faults import with_fault

from costmodel.collector import CpuRunner
from costmodel.collector.runners._base import Request
from costmodel.collector.runners._bench import DeviceJobs
from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.kernels import sample_candidates
from costmodel.records import Candidate, Measurement, Outcome, Workload

pytestmark = [pytest.mark.tvm, pytest.mark.faults, pytest.mark.white_box]

MATMUL = Workload.parse("matmul-m32-n32-k32")
BUILD_LIMIT_S, RUN_LIMIT_S = 30.0, 6.0  # many times what a kernel that works takes here, for busy machines


@pytest.fixture(scope="module")
def runner(tmp_path_factory) -> Iterator[CpuRunner]:
    with CpuRunner(
        sources=[planted_faults.PlantedSource(tmp_path_factory.mktemp("markers"))],
        build_timeout_s=BUILD_LIMIT_S,
        run_timeout_s=RUN_LIMIT_S,
        device_jobs=planted_faults.DEVICE_JOBS,
    ) as opened:
        yield opened


@pytest.fixture(scope="module")
def fresh(runner: CpuRunner) -> Iterator[Candidate]:
    """Candidates that no test has built yet."""
    return iter(runner.draw(sample_candidates, MATMUL, 48, 0).result())


def measure_together(runner: CpuRunner, candidates: list[Candidate]) -> list[Measurement]:
    """Measure candidates as one batch."""
    platform = runner.platform(1)
    return runner.submit([Request(candidate, platform) for candidate in candidates]).result()


@pytest.mark.parametrize(
    ("fault", "outcome", "reason"),
    [
        ("compiler fails", Outcome.COMPILE_ERROR, "No space left on device"),
        ("build hangs", Outcome.TIMEOUT, "the build took more than 30 s"),
        ("build dies", Outcome.COMPILE_ERROR, "the build worker died \\(exit code 7\\)"),
        ("kernel writes nothing", Outcome.WRONG_RESULT, "output differs"),
        ("kernel raises", Outcome.LAUNCH_ERROR, "too many resources"),
        ("kernel lacks memory at first", Outcome.WRONG_RESULT, "output differs"),  # the second time
        ("kernel sticks", Outcome.LAUNCH_ERROR, "illegal address"),
        ("kernel hangs", Outcome.TIMEOUT, "it took more than 6 s on the device"),
        ("kernel dies", Outcome.LAUNCH_ERROR, r"the device worker died \(exit code -6\)"),
    ],
)
def test_a_fault_costs_one_candidate_of_a_batch(
    runner, fresh, fault: str, outcome: Outcome, reason: str
) -> None:
    batch = [next(fresh), with_fault(next(fresh), fault), next(fresh)]
    before, failed, after = measure_together(runner, batch)
    assert failed.outcome is outcome
    assert re.search(reason, failed.error), failed.error
    assert failed.latencies_s == ()
    for ran in (before, after, *runner.measure([next(fresh)], runner.platform(1))):
        assert (ran.outcome, ran.error) == (Outcome.OK, "")


def test_an_output_that_is_slightly_off_is_wrong(runner, fresh) -> None:
    failing = runner.draw(sample_candidates, planted_faults.WRONG, 1, 0).result()
    failed, ran = measure_together(runner, [*failing, next(fresh)])
    assert failed.outcome is Outcome.WRONG_RESULT
    assert ran.outcome is Outcome.OK


def test_a_reference_whose_worker_dies_is_computed_again(runner) -> None:
    drawn = runner.draw(sample_candidates, planted_faults.DIES_AT_FIRST, 1, 0).result()
    (ran,) = runner.measure(drawn, runner.platform(1))
    assert ran.outcome is Outcome.OK


def test_without_a_reference_nothing_is_measured(runner, fresh) -> None:
    drawn = runner.draw(sample_candidates, planted_faults.REFUSED, 1, 0).result()
    failed, ran = measure_together(runner, [*drawn, next(fresh)])
    assert failed.outcome is Outcome.COMPILE_ERROR
    assert failed.error == "no reference output: the disk is full"
    assert ran.outcome is Outcome.OK


def test_workers_killed_between_two_jobs_are_replaced(runner, fresh) -> None:
    built = [next(fresh)]
    runner.measure(built, runner.platform(1))
    workers = [child for child in psutil.Process().children() if "spawn_main" in "".join(child.cmdline())]
    assert len(workers) >= 2
    for worker in workers:
        worker.kill()
    for candidates in (built, [next(fresh)]):
        (ran,) = runner.measure(candidates, runner.platform(1))
        assert (ran.outcome, ran.error) == (Outcome.OK, "")


def test_a_device_that_cannot_be_opened_again_is_no_fault_of_a_kernel(
    fresh, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tvm.py").write_text("raise OSError('the driver is gone')")
    others = set(psutil.Process().children())
    with CpuRunner(build_workers=1) as runner:
        candidate, platform = next(fresh), runner.platform(1)
        (ran,) = runner.measure([candidate], platform)
        assert ran.outcome is Outcome.OK
        monkeypatch.syspath_prepend(str(tmp_path))  # which new processes take over
        for process in set(psutil.Process().children()) - others:
            if "spawn_main" in "".join(process.cmdline()):
                process.kill()
        with pytest.raises(DeviceUnavailableError, match="the driver is gone"):
            runner.measure([candidate], platform)


def test_a_draw_whose_worker_dies_says_so(runner) -> None:
    with pytest.raises(CostModelError, match=r"it died \(exit code 7\)"):
        runner.draw(planted_faults.die, MATMUL, 1, 0).result(600)


def test_closing_cancels_what_waits_and_ends_what_hangs(fresh, tmp_path: Path) -> None:
    source = planted_faults.PlantedSource(tmp_path)
    with CpuRunner(run_timeout_s=600.0, build_timeout_s=600.0, sources=[source]) as runner:
        platform = runner.platform(1)
        hanging, waiting = with_fault(next(fresh), "kernel hangs"), next(fresh)
        on_device = runner.submit([Request(hanging, platform)])
        while not on_device.running():
            time.sleep(0.01)
        for_device = runner.submit([Request(waiting, platform)])
        for_build = runner.submit([Request(with_fault(next(fresh), "build hangs"), platform)])
        for_draw = runner.draw(planted_faults.hang, MATMUL, 1, 0)
    after = runner.submit([Request(hanging, platform)])
    everything = [on_device, for_device, for_build, for_draw, after]
    _, pending = wait(everything, 600)
    assert not pending
    for future in everything:
        with pytest.raises(CancelledError):
            future.result()


def test_a_device_that_cannot_be_opened_is_the_users_to_mend() -> None:
    jobs = DeviceJobs(describe=planted_faults.refuse_to_open)
    with pytest.raises(CostModelError, match="The cpu device cannot be opened: no such device"):
        CpuRunner(device_jobs=jobs)


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_while_a_device_opens_is_not_waited_for(tmp_path: Path, monkeypatch) -> None:
    """A device that never opens would keep the command for five minutes."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    begun, before = tmp_path / "begun", set(psutil.Process().children())
    jobs = DeviceJobs(describe=partial(planted_faults.hang_while_opening, begun))
    interrupted = []

    def interrupt() -> None:
        while not begun.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)
        interrupted.append(True)

    with ThreadPoolExecutor(1) as thread:
        thread.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            CpuRunner(device_jobs=jobs)
    assert interrupted
    assert set(tmp_path.iterdir()) == {begun}
    left = set(psutil.Process().children()) - before
    assert not [child for child in left if "spawn_main" in "".join(child.cmdline())]


def test_a_missing_compiler_is_the_users_to_mend(monkeypatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(CostModelError, match=r"must have a C\+\+ compiler .* Install one"):
        CpuRunner()


def test_a_worker_that_takes_too_much_memory_fails_alone(runner, fresh) -> None:
    with pytest.raises(MemoryError):
        runner.draw(planted_faults.take_too_much_memory, MATMUL, 1, 0).result(600)
    (ran,) = runner.measure([next(fresh)], runner.platform(1))
    assert ran.outcome is Outcome.OK
