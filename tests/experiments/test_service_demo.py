"""The service that `make service-demo` shows, and workers in a crowd that are killed, in short."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import postgres
import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "service_demo"

pytestmark = pytest.mark.rehearsal


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(FOLDER)
    sys.modules.pop("run", None)
    import run

    yield run
    sys.modules.pop("run", None)


@pytest.fixture
def database() -> Iterator[str]:
    programs = postgres.programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server, and psycopg2")
    with postgres.server(programs) as url:
        yield url.format("postgres")


@pytest.mark.tvm
def test_kills_of_a_builder_and_a_worker_lose_nothing(
    demo: ModuleType, database: str, tmp_path: Path
) -> None:
    for package in ("tvm", "distributed"):
        pytest.importorskip(package)
    workloads = ("matmul-m32-n32-k32", "matmul-m64-n64-k64")
    found = demo.demonstrate(database, tmp_path, workloads, trials=3)
    assert (found.measured, found.lost, found.twice, found.deaths) == (6, 0, 0, 1)
    assert found.before >= 1
    assert found.by_rank == 0
    assert [name for name, sentence in found.jobs.items() if sentence.startswith("Run ")] == list(workloads)


def test_workers_and_connections_killed_in_a_crowd_end_as_if_undisturbed(
    database: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(FOLDER.parents[1] / "tests" / "service")
    from work_until_killed import kill_crowd

    tally = kill_crowd(8, 1, tmp_path, lambda: postgres.emptied(database), trials=6)
    assert (tally.kills, tally.lost, tally.different) == (8, 0, 0)
    assert tally.connections > 0
    assert tally.crashes > 0
    assert tally.trials == 24 * tally.jobs
