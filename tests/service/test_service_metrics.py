"""What Prometheus reads of a store, over HTTP."""

import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from costmodel.collector._meter import Meter, MeteredStage, Tally
from costmodel.errors import CostModelError
from costmodel.service import JobFile, JobStore
from costmodel.service._metrics import serve_metrics
from costmodel.service._status import Answer
from costmodel.service._store import TaskProgress
from costmodel.service._usage import Capacity

pytestmark = pytest.mark.white_box

pytest.importorskip("prometheus_client")
ALERTS = Path(__file__).parents[2] / "configs" / "service" / "alerts.yaml"
NAMES = ("matmul-m16-n1024-k1024", "matmul-m64-n64-k64")
Scrape = Callable[[], dict[str, float]]


@pytest.fixture
def scraped(place: str) -> Iterator[Scrape]:
    """Reads all samples, by name and label."""
    from prometheus_client.parser import text_string_to_metric_families

    server, thread = serve_metrics(JobStore(place), port=0)

    def scrape() -> dict[str, float]:
        with urlopen(f"http://127.0.0.1:{server.server_port}/metrics") as answer:
            families = text_string_to_metric_families(answer.read().decode())
            samples = [sample for family in families for sample in family.samples]
        return {" ".join([sample.name, *sample.labels.values()]): sample.value for sample in samples}

    yield scrape
    server.shutdown()
    server.server_close()
    thread.join()


def test_each_scrape_tells_where_jobs_stand(place: str, scraped: Scrape) -> None:
    now = 1e9
    store = JobStore(place, clock=lambda: now)
    assert scraped()["costmodel_jobs waiting"] == 0
    store.submit(JobFile(workloads=NAMES, trials=4).job(), submitter="ann")
    store.submit(JobFile(workloads=NAMES[:1], trials=4).job(), submitter="bob", priority=5)
    first = store.lease()
    assert first is not None
    now += 30.0
    store.end(first, TaskProgress(4, Answer(("Run it.",), 1e-3), is_done=True))
    second = store.lease()
    assert second is not None
    store.fail(second, "No such kernel.")
    found = scraped()
    assert (found["costmodel_jobs failed"], found["costmodel_jobs waiting"]) == (1, 1)
    assert [found[f"costmodel_tasks {state}"] for state in ("open", "held", "done", "failed")] == [1, 0, 1, 1]
    assert (found["costmodel_trials_total"], found["costmodel_leases_total"]) == (4, 2)
    assert (found["costmodel_worker_seconds_total ann"], found["costmodel_deaths_total"]) == (30.0, 0)


def test_each_scrape_tells_how_busy_stages_are(
    place: str, scraped: Scrape, monkeypatch: pytest.MonkeyPatch
) -> None:
    build, counts, now = MeteredStage("build", "host"), Meter(), [time.time() - 4.0]
    monkeypatch.setattr("costmodel.service._usage.METER", counts)
    store = JobStore(place, clock=lambda: now[0])
    for busy_s in (0.0, 6.0):
        counts._done[build] = Tally(3, busy_s)
        store.report_usage({build: Capacity(2, waiting=5)})
        now[0] += 4.0
    found = scraped()
    assert [found[f"costmodel_stage_{name} host build"] for name in ("places", "waiting")] == [2, 5]
    assert found["costmodel_stage_busy_ratio host build"] == pytest.approx(0.75)


def test_alerts_are_about_what_is_served(
    place: str, scraped: Scrape, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = Meter()
    counts._done |= {MeteredStage(name, "host"): Tally(1, 1.0) for name in ("build", "device")}
    monkeypatch.setattr("costmodel.service._usage.METER", counts)
    JobStore(place).report_usage()
    served = scraped()
    (group,) = yaml.safe_load(ALERTS.read_text())["groups"]
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "annotations"}
        selected = re.findall(r'(costmodel_\w+)(?:\{\w+="(\w+)"\})?', rule["expr"])
        assert selected
        for name, label in selected:
            assert any({name, label} - {""} <= set(sample.split()) for sample in served), (name, label)


def test_a_task_that_a_worker_has_is_held(place: str, scraped: Scrape) -> None:
    store = JobStore(place)
    store.submit(JobFile(workloads=NAMES, trials=4).job())
    store.lease()
    found = scraped()
    assert (found["costmodel_tasks held"], found["costmodel_tasks open"], found["costmodel_workers"]) == (
        1,
        1,
        1,
    )


def test_what_is_left_of_a_cancelled_job_is_not_open(place: str, scraped: Scrape) -> None:
    store = JobStore(place)
    store.cancel(store.submit(JobFile(workloads=NAMES, trials=4).job()))
    found = scraped()
    assert (found["costmodel_tasks open"], found["costmodel_tasks cancelled"]) == (0, 2)


def test_a_port_that_is_taken_is_told(place: str) -> None:
    with closing(socket.socket()) as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(CostModelError, match="must have a free port"):
            serve_metrics(JobStore(place), port=other.getsockname()[1])
