"""Metrics of jobs in the format of Prometheus."""

from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from costmodel.errors import CostModelError, MissingExtraError
from costmodel.service._status import JobStatus, TaskStatus
from costmodel.service._store import JobStore

if TYPE_CHECKING:
    from prometheus_client import Metric


_JOB_STATES = ("waiting", "running", "done", "failed", "cancelled")
# Of each stage of the work (``costmodel jobs top``), over so many seconds: the name, what it is, the field.
_LOOKED_AT_S = 60.0
_OF_STAGES = (
    ("places", "Jobs that builders, devices or workers do at once.", "places"),
    ("waiting", "Jobs that wait for a place.", "waiting"),
    ("busy_ratio", "Share of the places that was busy in the last minute.", "share"),
)
_TASK_STATES = ("open", "held", "done", "failed", "cancelled")


class StoreMetrics:
    """A collector of ``prometheus_client``: it reads the store anew at each scrape, and keeps nothing.

    Args:
        store: The store.
    """

    def __init__(self, store: JobStore) -> None:
        self._store = store

    def collect(self) -> "Iterator[Metric]":
        """The metrics as they are now."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        jobs = self._store.list()
        tasks = [task for job in jobs for task in job.tasks]
        held = [task.worker for task in tasks if task.worker]
        by_state = Counter(_state_of(task, job) for job in jobs for task in job.tasks)
        yield _by_label(
            GaugeMetricFamily("costmodel_jobs", "Jobs by state.", labels=["state"]),
            {state: sum(job.state == state for job in jobs) for state in _JOB_STATES},
        )
        yield _by_label(
            GaugeMetricFamily("costmodel_tasks", "Tasks by state; held by a worker.", labels=["state"]),
            {state: by_state[state] for state in _TASK_STATES},
        )
        yield GaugeMetricFamily("costmodel_workers", "Workers that have a task.", value=len(set(held)))
        trials, leases, deaths = (
            sum(getattr(task, name) for task in tasks) for name in ("trials", "leases", "deaths")
        )
        yield CounterMetricFamily("costmodel_trials", "Candidates measured, by slices done.", value=trials)
        yield CounterMetricFamily("costmodel_leases", "Times that a worker took a task.", value=leases)
        yield CounterMetricFamily("costmodel_deaths", "Leases that no worker ended.", value=deaths)
        yield _by_label(
            CounterMetricFamily(
                "costmodel_worker_seconds", "Time that workers had tasks.", labels=["submitter"]
            ),
            self._store.served_s(),
        )
        used = self._store.usage(_LOOKED_AT_S, 1)
        for name, what, field in _OF_STAGES:
            family = GaugeMetricFamily(f"costmodel_stage_{name}", what, labels=["stage", "place"])
            for use in used:
                family.add_metric([use.stage, use.place], getattr(use, field))
            yield family


def serve_metrics(store: JobStore, *, port: int = 9100, host: str = "127.0.0.1") -> Any:
    """Serve the metrics of a store at ``http://host:port/metrics``, in a thread.

    Returns:
        The server, with ``server_port`` and ``shutdown()``, and its thread.

    Raises:
        CostModelError: If prometheus_client is not installed, or the port is taken.
    """
    if find_spec("prometheus_client") is None:
        raise MissingExtraError("Serving metrics", "metrics")
    from prometheus_client import CollectorRegistry, start_http_server

    registry = CollectorRegistry(auto_describe=False)
    registry.register(StoreMetrics(store))
    try:
        return start_http_server(port, host, registry)
    except OSError as error:
        raise CostModelError(
            f"Metrics must have a free port, but {host}:{port} is not: {error.strerror}. Name another."
        ) from error


def _state_of(task: TaskStatus, job: JobStatus) -> str:
    if task.worker:
        return "held"
    return job.state if job.state == "cancelled" and task.state == "open" else task.state


def _by_label(family: Any, values: dict[str, float]) -> Any:
    for label, value in values.items():
        family.add_metric([label], value)
    return family
