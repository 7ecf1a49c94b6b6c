"""The service that `make service-demo` shows, in short."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import postgres
import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "service_demo"

pytestmark = [pytest.mark.tvm, pytest.mark.rehearsal]


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(FOLDER)
    sys.modules.pop("run", None)
    import run

    yield run
    sys.modules.pop("run", None)


def test_kills_of_a_builder_and_a_worker_lose_nothing(demo: ModuleType, tmp_path: Path) -> None:
    for package in ("tvm", "distributed"):
        pytest.importorskip(package)
    programs = postgres.programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server, and psycopg2")
    workloads = ("matmul-m32-n32-k32", "matmul-m64-n64-k64")
    with postgres.server(programs) as url:
        found = demo.demonstrate(url.format("postgres"), tmp_path, workloads, trials=3)
    assert (found.measured, found.lost, found.twice, found.deaths) == (6, 0, 0, 1)
    assert found.before >= 1
    assert [name for name, sentence in found.jobs.items() if sentence.startswith("Run ")] == list(workloads)
