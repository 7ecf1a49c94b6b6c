import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from contextlib import suppress
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

import psutil
import pytest

from costmodel.collector import LocalEngine
from costmodel.collector._engine import WorkerDiedError
from costmodel.errors import CostModelError
from costmodel.service import open_engine
from costmodel.threads import cpu_threads

pytestmark = pytest.mark.white_box

# A module that takes note of who imports it, and a program that has it imported for its workers.
IMPORTED = """
import os

with open("imports", "a") as file:
    print(os.getpid(), file=file)


def pid():
    return os.getpid()
"""
FORKED = """
import os

from costmodel.collector import LocalEngine
from costmodel.collector._engine import WorkerDiedError

if __name__ == "__main__":
    with LocalEngine(1, modules=("slow", "is_not_installed")) as workers:
        import slow

        pids = {workers.submit(slow.pid).result(100)}
        try:
            workers.submit(os._exit, 1).result(100)
        except WorkerDiedError:
            pids.add(workers.submit(slow.pid).result(100))
    with open("imports") as file:
        print(len({*file.read().split()} - {str(os.getpid())}), len(pids))
"""


@pytest.fixture(params=[(), ("costmodel.threads",)], ids=["spawned", "forked"])
def workers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalEngine]:
    pytest.importorskip("pebble")
    opened = LocalEngine(1, tmp_path, modules=request.param)
    yield opened
    opened.close()


def test_a_job_may_succeed_fail_hang_or_die(workers: LocalEngine) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result(600)
    with pytest.raises(TimeoutError):
        workers.submit(time.sleep, 600, timeout_s=0.1).result(600)
    with pytest.raises(WorkerDiedError, match="exit code 7"):
        workers.submit(os._exit, 7).result(600)
    assert workers.submit(divmod, 7, 2).result(600) == (3, 1)


def test_forked_processes_share_what_one_imported(tmp_path: Path) -> None:
    pytest.importorskip("pebble")
    (tmp_path / "slow.py").write_text(IMPORTED)
    (tmp_path / "main.py").write_text(FORKED)
    ran = subprocess.run(
        [sys.executable, "main.py"], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True
    )
    importers, processes = ran.stdout.split()
    assert importers == "1"  # beside the program itself
    assert processes == "2"  # the first ended in the middle


def test_temporary_files_of_a_worker_go_into_its_folder(workers: LocalEngine, tmp_path: Path) -> None:
    assert workers.submit(os.getenv, "TMPDIR").result(600) == str(tmp_path)


def test_what_a_restart_loses_is_told(workers: LocalEngine) -> None:
    running, waiting = workers.submit(time.sleep, 600), workers.submit(time.sleep, 600)
    workers.restart()
    for future in (running, waiting):
        with pytest.raises(WorkerDiedError):
            future.result(600)
    assert workers.submit(divmod, 7, 2).result(600) == (3, 1)


def test_what_closing_loses_is_cancelled(workers: LocalEngine) -> None:
    running, waiting = workers.submit(time.sleep, 600), workers.submit(time.sleep, 600)
    workers.close()
    assert not wait([running, waiting], 600).not_done
    for future in (running, waiting):
        with pytest.raises(CancelledError):
            future.result()


def test_a_job_that_its_caller_gave_up_disturbs_nobody(workers: LocalEngine, caplog) -> None:
    given_up, wanted = workers.submit(time.sleep, 0.1), workers.submit(divmod, 7, 2)
    assert given_up.cancel()
    assert wanted.result(600) == (3, 1)
    assert not caplog.records


@pytest.mark.parametrize("waited_s", [0.0, 0.001, 0.01, 0.1])
def test_an_interrupt_does_not_reach_a_worker_that_starts(tmp_path: Path, waited_s: float, capfd) -> None:
    pytest.importorskip("pebble")
    this = pytest.importorskip("psutil").Process()
    resource_tracker.ensure_running()  # a process of its own
    others = set(this.children())
    workers = LocalEngine(1, tmp_path)
    with ThreadPoolExecutor(1) as thread:
        submitted = thread.submit(workers.submit, divmod, 7, 2)
        while not (worker := set(this.children()) - others):
            pass
        time.sleep(waited_s)
        worker.pop().send_signal(signal.SIGINT)
        assert submitted.result().result(600) == (3, 1)
    workers.close()
    assert "Traceback" not in capfd.readouterr().err


def test_a_job_that_may_kill_no_worker_runs_once(tmp_path: Path) -> None:
    pytest.importorskip("pebble")
    with LocalEngine(1, allowed_deaths=0) as engine:
        dying = engine.submit(append_and_die, tmp_path / "runs")
        assert isinstance(dying.exception(600), WorkerDiedError)
    assert (tmp_path / "runs").read_text() == "ran\n"


def test_one_that_may_kill_two_runs_three_times(tmp_path: Path) -> None:
    pytest.importorskip("pebble")
    with LocalEngine(1, allowed_deaths=2) as engine:
        dying = engine.submit(append_and_die, tmp_path / "runs")
        assert isinstance(dying.exception(600), WorkerDiedError)
    assert (tmp_path / "runs").read_text() == "ran\n" * 3


def test_a_job_is_not_blamed_for_processes_that_die_before_they_have_it(tmp_path: Path) -> None:
    pytest.importorskip("pebble")
    killed: set[int] = set()
    with LocalEngine(1, tmp_path, partial(wait_for, tmp_path / "go")) as workers:
        outcome = workers.submit(os.getpid)
        while len(killed) < 4:
            for child in psutil.Process().children():
                with suppress(psutil.NoSuchProcess):  # or it is dead, and nobody has waited for it yet
                    if child.pid not in killed and "spawn_main" in "".join(child.cmdline()):
                        child.kill()
                        killed.add(child.pid)
            time.sleep(0.005)
        (tmp_path / "go").touch()
        assert outcome.result(100) not in killed


@pytest.mark.parametrize("what", ["forgets", "refuses"])
def test_a_job_that_comes_to_a_pool_as_it_breaks_runs(
    what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pebble = pytest.importorskip("pebble")
    came: list[Any] = []

    def schedule(pool: Any, function: Any, **settings: Any) -> Any:
        came.append(pool)
        if len(came) > 1:
            return taken(pool, function, **settings)
        pool._context.status = type(pool._context.status).ERROR
        if what == "refuses":
            raise RuntimeError("Unexpected error within the Pool")
        return pebble.ProcessFuture()

    taken = pebble.ProcessPool.schedule
    monkeypatch.setattr(pebble.ProcessPool, "schedule", schedule)
    with LocalEngine(1, tmp_path) as workers:
        assert workers.submit(divmod, 7, 2).result(100) == (3, 1)
    assert len({id(pool) for pool in came}) == 2


def test_a_job_that_asks_for_what_no_process_has_is_refused() -> None:
    pytest.importorskip("pebble")
    with (
        LocalEngine(1, resources={"build": 1}) as engine,
        pytest.raises(CostModelError, match="`divmod` must ask for what each process has") as refused,
    ):
        engine.submit(divmod, 7, 2, resources={"gpu": 1})
    assert "{'gpu': 1}" in str(refused.value)


def test_local_engines_have_addresses() -> None:
    pytest.importorskip("pebble")
    with open_engine("local://3") as three, open_engine("local://") as here:
        assert [worker.slots for worker in three.workers()] == [3]
        assert [worker.slots for worker in here.workers()] == [cpu_threads()]


@pytest.mark.parametrize(
    "address", ["local://0", "local://-1", "tls://", "ray", "ray://host", "host:8786", ""]
)
def test_other_addresses_are_refused(address: str) -> None:
    with pytest.raises(CostModelError, match="An engine's address must be local://"):
        open_engine(address)


def wait_for(file: Path) -> None:
    while not file.exists():
        time.sleep(0.01)


def append_and_die(file: Path) -> None:
    with file.open("a") as opened:
        opened.write("ran\n")
    time.sleep(0.5)  # until the pool has heard that the job began: what dies before is not counted against it
    os._exit(7)
