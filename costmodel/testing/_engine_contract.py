"""Contract checks for engines: local and Dask pass the same ones.

A test parametrises over the checks::

    @pytest.mark.parametrize("check", ENGINE_CHECKS)
    def test_local_engine_keeps_the_contract(check):
        check(EngineCase(open=lambda: LocalEngine(2)))
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from costmodel.collector._engine import Engine, WorkerDiedError
from costmodel.errors import CostModelError

# Longer than any check takes: a job that sleeps so long is ended, or its check fails.
_FOREVER_S = 600.0


@dataclass(frozen=True)
class EngineCase:
    """An engine to check.

    Attributes:
        open: Opens a new engine whose workers are on this machine.
        resources: Resources of one of its workers.
    """

    open: Callable[[], Engine]
    resources: Mapping[str, float] = field(default_factory=dict)


def check_gives_what_functions_return(case: EngineCase) -> None:
    """Each job has the result of its own arguments, large ones too."""
    with case.open() as engine:
        futures = [engine.submit(divmod, number, 7) for number in range(50)]
        doubled = engine.submit(bytes.__add__, bytes(1 << 20), bytes(1 << 20))
        assert [future.result(_FOREVER_S) for future in futures] == [divmod(n, 7) for n in range(50)]
        assert doubled.result(_FOREVER_S) == bytes(2 << 20)


def check_raises_what_functions_raise(case: EngineCase) -> None:
    """An exception arrives as it is, and harms no other job."""
    with case.open() as engine:
        assert isinstance(engine.submit(divmod, 1, 0).exception(_FOREVER_S), ZeroDivisionError)
        assert engine.submit(divmod, 7, 2).result(_FOREVER_S) == (3, 1)


def check_a_job_that_hangs_is_given_up(case: EngineCase) -> None:
    """A job that takes too long ends in a ``TimeoutError``, and its worker takes others."""
    with case.open() as engine:
        hanging = engine.submit(time.sleep, _FOREVER_S, timeout_s=0.1)
        assert isinstance(hanging.exception(_FOREVER_S), TimeoutError)
        assert engine.submit(divmod, 7, 2).result(_FOREVER_S) == (3, 1)


def check_the_job_of_a_killed_worker_runs_again(case: EngineCase) -> None:
    """What was lost with its worker is done by another."""
    with tempfile.TemporaryDirectory() as name, case.open() as engine:
        folder = Path(name)
        job = engine.submit(hang_the_first_time, folder)
        while not (started := list(folder.iterdir())):
            time.sleep(0.01)
        os.kill(int(started[0].name), signal.SIGKILL)
        assert job.result(_FOREVER_S) != int(started[0].name)
        assert len(list(folder.iterdir())) == 2


def check_a_job_that_kills_its_workers_is_given_up(case: EngineCase) -> None:
    """It ends in an error that names it, and other jobs are done."""
    with case.open() as engine:
        deadly = engine.submit(os._exit, 7, key="build of the deadly kernel")
        harmless = [engine.submit(divmod, number, 7) for number in range(20)]
        error = deadly.exception(_FOREVER_S)
        assert isinstance(error, WorkerDiedError)
        assert "build of the deadly kernel" in str(error), "the error must name the job"
        assert [future.result(_FOREVER_S) for future in harmless] == [divmod(n, 7) for n in range(20)]


def check_functions_without_a_name_are_refused(case: EngineCase) -> None:
    """What workers cannot import is refused at once, not when it has been sent."""
    with case.open() as engine:
        try:
            engine.submit(lambda: None)
        except CostModelError as error:
            refusal = str(error)
        else:
            raise AssertionError("a lambda must be refused")
    assert "<lambda>" in refusal, "the refusal must name the function"


def check_jobs_of_one_key_are_one_job(case: EngineCase) -> None:
    """As long as it has not failed; a job that failed is tried again."""
    with case.open() as engine:
        first, second = (engine.submit(os.urandom, 16, key="one") for _ in range(2))
        assert first.result(_FOREVER_S) == second.result(_FOREVER_S)
        assert engine.submit(os.urandom, 16, key="two").result(_FOREVER_S) != first.result()
        failed = engine.submit(divmod, 1, 0, key="three")
        assert failed.exception(_FOREVER_S)
        assert engine.submit(divmod, 7, 2, key="three").result(_FOREVER_S) == (3, 1)


def check_jobs_get_the_resources_that_workers_have(case: EngineCase) -> None:
    """A job that asks for what a worker has is done."""
    with case.open() as engine:
        done = engine.submit(divmod, 7, 2, resources=case.resources)
        assert done.result(_FOREVER_S) == (3, 1)


def check_a_cancelled_job_holds_up_no_other(case: EngineCase) -> None:
    """Jobs can be cancelled while they wait or run, and their workers take others."""
    with tempfile.TemporaryDirectory() as name, case.open() as engine:
        folder = Path(name)
        running = engine.submit(hang_the_first_time, folder)
        while not any(folder.iterdir()):
            time.sleep(0.01)
        slots = sum(worker.slots for worker in engine.workers())
        unwanted: list[Future[Any]] = [
            running,
            *(engine.submit(time.sleep, _FOREVER_S) for _ in range(2 * slots)),
        ]
        assert all(future.cancel() for future in unwanted)
        assert not wait(unwanted, _FOREVER_S).not_done
        wanted = [engine.submit(divmod, number, 7) for number in range(2 * slots)]
        assert [future.result(_FOREVER_S) for future in wanted] == [divmod(n, 7) for n in range(2 * slots)]


def check_what_is_called_back_may_submit(case: EngineCase) -> None:
    """The next stage can be queued by whoever sees the last one done."""
    with case.open() as engine:
        last: Future[Future[tuple[int, int]]] = Future()
        first = engine.submit(divmod, 20, 7)
        first.add_done_callback(lambda done: last.set_result(engine.submit(divmod, *done.result())))
        assert last.result(_FOREVER_S).result(_FOREVER_S) == (0, 2)


def check_closing_cancels_what_is_not_done(case: EngineCase) -> None:
    """Nobody waits for a closed engine, and closing again is harmless."""
    with case.open() as engine:
        slots = sum(worker.slots for worker in engine.workers())
        futures = [engine.submit(time.sleep, _FOREVER_S, timeout_s=_FOREVER_S) for _ in range(slots + 1)]
    assert not wait(futures, _FOREVER_S).not_done
    assert all(future.cancelled() for future in futures)
    engine.close()


def check_workers_are_described(case: EngineCase) -> None:
    """They have names of their own, places for jobs, and the resources."""
    with case.open() as engine:
        workers = engine.workers()
    assert len({worker.name for worker in workers}) == len(workers) > 0
    assert all(worker.slots > 0 and worker.host for worker in workers)
    for name, amount in case.resources.items():
        assert any(worker.resources.get(name, 0) >= amount for worker in workers)


def hang_the_first_time(folder: Path) -> int:
    """Leave a file of the process's number in a folder; the first process to do so waits to be killed."""
    first = not any(folder.iterdir())
    (folder / str(os.getpid())).touch()
    if first:
        time.sleep(_FOREVER_S)
    return os.getpid()


ENGINE_CHECKS: tuple[Callable[[EngineCase], None], ...] = (
    check_gives_what_functions_return,
    check_raises_what_functions_raise,
    check_a_job_that_hangs_is_given_up,
    check_the_job_of_a_killed_worker_runs_again,
    check_a_job_that_kills_its_workers_is_given_up,
    check_functions_without_a_name_are_refused,
    check_jobs_of_one_key_are_one_job,
    check_jobs_get_the_resources_that_workers_have,
    check_a_cancelled_job_holds_up_no_other,
    check_what_is_called_back_may_submit,
    check_closing_cancels_what_is_not_done,
    check_workers_are_described,
)
"""What each engine must do: functions of an `EngineCase`."""
