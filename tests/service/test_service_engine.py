"""Workers that measure have their kernels built by an engine, whose scheduler may die."""

import time
from collections.abc import Callable
from pathlib import Path

import optuna
import pytest
from service import Service
from work_until_killed import FINISHED, studies

from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome, read_records
from costmodel.service import JobFile, JobStore, work

optuna.logging.set_verbosity(optuna.logging.WARNING)
SMALL = JobFile(workloads=("matmul-m32-n32-k32",), sms=(1,), trials=6, runner="cpu")


def measured(service: Service) -> list[Measurement]:
    return [m for path in service.records.glob("*.jsonl") for m in read_records(path)]


def test_a_worker_whose_engine_is_refused_takes_no_task(tmp_path: Path) -> None:
    store = JobStore(str(tmp_path / "jobs.db"))
    id_ = store.submit(SMALL.job())
    with pytest.raises(CostModelError, match=r"must begin with tls://, but got tcp://192\.0\.2\.1:8786"):
        work(store, once=True, engine="tcp://192.0.2.1:8786")
    assert store.show(id_).tasks[0].leases == 0


@pytest.mark.tvm
@pytest.mark.faults
def test_a_real_tune_goes_on_where_its_worker_and_its_scheduler_were_killed(tmp_path: Path) -> None:
    """Nothing that was measured is measured again, and a lost scheduler is no outcome of any kernel."""
    pytest.importorskip("tvm")
    pytest.importorskip("distributed")
    place = str(tmp_path / "jobs.db")
    store = JobStore(place)
    id_ = store.submit(SMALL.job())
    with Service(place, tmp_path / "service") as service:
        service.start_scheduler()
        service.start_builder("builder")
        service.start_worker("killed")
        wait_for(lambda: len(measured(service)) >= 2, service, "killed")
        service.kill("killed")
        first = measured(service)
        assert store.show(id_).state == "waiting"
        service.start_worker("worker", "--once")
        wait_for(lambda: len(measured(service)) > len(first), service, "worker")
        service.kill("scheduler")
        wait_for(lambda: "was lost" in service.said("worker"), service, "worker")
        second = measured(service)
        assert store.show(id_).tasks[0].state == "open"
        service.wait("builder")  # a Dask worker ends with its scheduler
        service.start_scheduler()
        service.start_builder("builder")
        assert service.wait("worker") == 0, service.said("worker")
        after = measured(service)
    (task,) = store.show(id_).tasks
    assert (task.state, task.trials, task.leases, task.deaths) == ("done", SMALL.trials, 3, 1)
    assert after[: len(second)] == second
    assert second[: len(first)] == first
    assert len({m.key for m in after}) == len(after)
    assert {m.outcome for m in after} == {Outcome.OK}
    (study,) = studies(place)
    values = [trial.value for trial in study.get_trials(states=FINISHED)]
    assert len(values) == SMALL.trials
    assert set(values) <= {m.latency_s for m in after}  # none was measured again
    assert task.answer is not None
    assert task.answer.latency_s == min(values)


def wait_for(happens: Callable[[], bool], service: Service, name: str) -> None:
    """Wait for something that a process of the service does as long as it lives."""
    while not happens():
        assert not service.has_ended(name), service.said(name)
        time.sleep(0.02)
