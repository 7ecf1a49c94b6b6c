"""What only workers of Dask meet: other machines, workers that die as a whole, schedulers that go."""

import os
import re
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from costmodel.collector import EngineLostError
from costmodel.collector._engine import WorkerDiedError
from costmodel.errors import CostModelError
from costmodel.service import DaskEngine, open_engine
from costmodel.service._cluster import JobProcesses

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")

pytestmark = pytest.mark.white_box
pytest.importorskip("pebble")


def take_the_worker_down(folder: Path, times: int) -> int:
    """Kill the Dask worker whose job process this is, if fewer than ``times`` were; else how many were."""
    killed = len(list(folder.iterdir()))
    if killed < times:
        (folder / str(os.getppid())).touch()
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return killed


def test_the_job_of_a_dask_worker_that_is_killed_runs_on_another(dask_cluster: Any, tmp_path: Path) -> None:
    with DaskEngine(dask_cluster) as engine:
        assert engine.submit(take_the_worker_down, tmp_path, 1).result(600) == 1


def test_a_job_that_kills_one_dask_worker_after_the_other_is_given_up(
    dask_cluster: Any, tmp_path: Path
) -> None:
    with DaskEngine(dask_cluster) as engine:
        error = engine.submit(take_the_worker_down, tmp_path, 99, key="the deadly one").exception(600)
        assert isinstance(error, WorkerDiedError)
        assert error.reason == "2 Dask workers, one after the other"
        assert "the deadly one" in str(error)
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)
    assert len(list(tmp_path.iterdir())) == 2


def test_job_processes_end_with_their_dask_worker(dask_cluster: Any, tmp_path: Path) -> None:
    with DaskEngine(dask_cluster) as engine:
        process = engine.submit(os.getpid).result(600)
        worker = engine.submit(os.getppid).result(600)
        parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)
        while Path(f"/proc/{process}").exists():
            time.sleep(0.01)
        assert worker
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)


def test_jobs_with_other_resources_have_other_processes(dask_cluster: Any) -> None:
    with DaskEngine(dask_cluster) as engine:
        plain = {engine.submit(os.getpid).result(600) for _ in range(8)}
        building = {engine.submit(os.getpid, resources={"build": 1}).result(600) for _ in range(8)}
    assert not plain & building


@pytest.mark.parametrize(
    "address",
    [
        "tcp://192.0.2.1:8786",
        "tcp://builder.example:8786",
        "192.0.2.1:8786",
        "builder.example:8786",
        "ws://192.0.2.1:8786",
        "ucx://192.0.2.1:8786",
        "TCP://192.0.2.1:8786",
        "tcp://127.0.0.1@192.0.2.1:8786",
        "tcp://localhost.example:8786",
        "tcp://[::ffff:192.0.2.1]:8786",
        "tcp://[:8786",
        "tcp://:8786",
        "anything://tcp://127.0.0.1:1",
    ],
)
def test_other_machines_must_be_spoken_to_in_secret(address: str) -> None:
    with pytest.raises(CostModelError, match=f"must begin with tls://, but got {re.escape(address)}"):
        DaskEngine(address, connect_timeout_s=0.1)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "localhost:1", "tcp://[::1]:1"])
def test_a_scheduler_of_this_machine_may_be_spoken_to_in_the_clear(address: str) -> None:
    with pytest.raises(CostModelError, match="A Dask scheduler must answer at"):
        DaskEngine(address, connect_timeout_s=0.1)


def test_whoever_asks_for_it_sends_jobs_in_the_clear() -> None:
    with pytest.raises(CostModelError, match=r"A Dask scheduler must answer at tcp://192.0.2.1:8786"):
        open_engine("tcp://192.0.2.1:8786", insecure=True, connect_timeout_s=0.1)


def test_an_address_where_nobody_answers_is_told() -> None:
    with pytest.raises(CostModelError, match=r"A Dask scheduler must answer at tcp://127.0.0.1:1"):
        open_engine("tcp://127.0.0.1:1", connect_timeout_s=0.1)


def test_tls_needs_certificates() -> None:
    with pytest.raises(CostModelError, match="Dask's configuration must name certificates here too"):
        open_engine("tls://127.0.0.1:1", connect_timeout_s=0.1)


def test_jobs_go_through_tls_to_whoever_has_the_certificate() -> None:
    pytest.importorskip("cryptography")
    security = distributed.Security.temporary()
    with (
        distributed.LocalCluster(
            n_workers=1, processes=False, security=security, protocol="tls://", dashboard_address=":0"
        ) as cluster,
        open_engine(cluster.scheduler_address, security=security) as engine,
    ):
        assert cluster.scheduler_address.startswith("tls://")
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)
        others = distributed.Security.temporary()
        with pytest.raises(CostModelError, match="A Dask scheduler must answer"):
            open_engine(cluster.scheduler_address, security=others, connect_timeout_s=1)


def test_a_worker_that_may_start_no_processes_is_told_of() -> None:
    with (
        dask.config.set({"distributed.worker.daemon": True}),
        distributed.LocalCluster(n_workers=1, processes=True, dashboard_address=":0") as cluster,
        DaskEngine(cluster) as engine,
    ):
        error = engine.submit(divmod, 7, 2).exception(600)
    assert isinstance(error, CostModelError)
    assert "DASK_DISTRIBUTED__WORKER__DAEMON=False" in str(error)


def in_threads(port: int = 0) -> Any:
    """A cluster in threads of this process."""
    return distributed.LocalCluster(
        n_workers=1, processes=False, scheduler_port=port, protocol="tcp://", dashboard_address=":0"
    )


def test_who_loses_the_scheduler_is_told() -> None:
    cluster = in_threads()
    with DaskEngine(cluster.scheduler_address, connect_timeout_s=1) as engine:
        assert engine.submit(divmod, 7, 2).result(600) == (3, 1)
        waiting = engine.submit(divmod, 7, 2, resources={"what nobody has": 1})
        cluster.close()
        error = waiting.exception(600)
        assert isinstance(error, EngineLostError)
        while not is_given_up(engine):
            pass
        with pytest.raises(EngineLostError, match="must live until `divmod` is done"):
            engine.submit(divmod, 7, 2)


def test_who_loses_the_scheduler_as_it_hands_over_a_result_is_told(
    dask_cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def gather(*_: Any, **__: Any) -> Any:
        raise distributed.comm.CommClosedError("Stream is closed")

    with DaskEngine(dask_cluster) as engine:
        monkeypatch.setattr(engine._client, "gather", gather)
        assert isinstance(engine.submit(divmod, 7, 2).exception(600), EngineLostError)


def is_given_up(engine: DaskEngine) -> bool:
    """Whether an engine does not look for its scheduler any more; as long as it does, jobs fail."""
    try:
        assert isinstance(engine.submit(divmod, 7, 2).exception(600), EngineLostError)
    except EngineLostError:
        return True
    return False


def test_jobs_run_on_a_scheduler_that_was_started_again() -> None:
    cluster = in_threads()
    with DaskEngine(cluster.scheduler_address) as engine:
        waiting = engine.submit(divmod, 7, 2, resources={"what nobody has": 1})
        cluster.close()
        assert isinstance(waiting.exception(600), EngineLostError)
        with in_threads(int(cluster.scheduler_address.rpartition(":")[2])):
            assert engine.submit(divmod, 7, 2).result(600) == (3, 1)


def test_a_job_that_is_cancelled_as_its_worker_begins_holds_up_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, cancelled = threading.Event(), threading.Event()
    submit = JobProcesses.of

    def slowly(processes: JobProcesses, resources: tuple[str, ...]) -> Any:
        begun.set()
        assert cancelled.wait(600)
        return submit(processes, resources)

    monkeypatch.setattr(JobProcesses, "of", slowly)
    with in_threads() as cluster, DaskEngine(cluster) as engine:
        unwanted = [
            engine.submit(time.sleep, 600) for _ in range(sum(each.slots for each in engine.workers()))
        ]
        assert begun.wait(600)
        tasks = next(iter(cluster.workers.values())).state.tasks
        assert all(each.cancel() for each in unwanted)
        while any(task.state == "executing" for task in list(tasks.values())):
            time.sleep(0.01)
        cancelled.set()
        assert engine.submit(divmod, 7, 2).result(30) == (3, 1)
