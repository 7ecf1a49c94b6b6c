"""The databases that jobs are kept in, and a cluster that builds for them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

RESOURCES = {"build": 1.0}


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty store."""
    if request.param == "sqlite":
        return str(tmp_path / "jobs.db")
    url: str = request.getfixturevalue("postgres_place")
    return url


@pytest.fixture(scope="module")  # not longer: workers that wait take a twentieth of a core each
def dask_cluster() -> Iterator[Any]:
    """Two Dask workers in processes of their own; a job may take one down, and not a second."""
    pytest.importorskip("pebble")
    dask = pytest.importorskip("dask")
    from distributed import LocalCluster

    settings = {"distributed.worker.daemon": False, "distributed.scheduler.allowed-failures": 1}
    with (
        dask.config.set(settings),
        LocalCluster(
            n_workers=2,
            threads_per_worker=1,
            processes=True,
            resources=RESOURCES,
            dashboard_address=":0",
        ) as cluster,
    ):
        yield cluster
