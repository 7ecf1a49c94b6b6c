"""Fixtures that several packages use."""

import gc
import shutil
import signal
from collections.abc import Generator, Iterator
from pathlib import Path

import postgres
import pytest
from fake_records import fake_measurements
from hypothesis import HealthCheck, settings

from costmodel.dataset import CardHeader, build_dataset
from costmodel.records import Measurement, RecordStore
from costmodel.search import Pool
from costmodel.testing import gpu_landscape, landscape_platform

# What the tests run is the same on every machine, however loaded it is.
settings.register_profile(
    "suite", derandomize=True, database=None, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
# For `make hunt`: other examples each time, and those that fail in a form that can be pasted into a test.
settings.register_profile("hunt", settings.get_profile("suite"), derandomize=False, print_blob=True)
settings.load_profile("suite")


# What other targets than `make test` run, by these marks alone.
_MARKS = ("docs", "faults", "gpu", "notebook", "ray", "rehearsal", "torch", "triton")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With ``-m faults`` and the like, import only files in which that mark stands: all take seconds."""
    mark, is_test = config.option.markexpr, collection_path.match("test_*.py")
    if mark in _MARKS and is_test and f"mark.{mark}" not in collection_path.read_text(encoding="utf-8"):
        return True
    return None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is imported, which stays to the end: it took a quarter of the start."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def no_models_of_what_ships(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """What somebody trained on this machine is not looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COSTMODEL_MODELS", str(tmp_path_factory.mktemp("models")))
        yield


@pytest.fixture
def _interruptible() -> Generator[None]:
    """A shell makes its background jobs ignore SIGINT, and these tests with them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def measurements() -> list[Measurement]:
    """All fake measurements."""
    return list(fake_measurements())


@pytest.fixture
def store(tmp_path: Path, measurements: list[Measurement]) -> Path:
    """A record store that holds them."""
    path = tmp_path / "records.jsonl"
    with RecordStore(path) as opened:
        opened.append(measurements)
    return path


@pytest.fixture(scope="session")
def header() -> CardHeader:
    """The author's part of a card."""
    return CardHeader("Fake kernels", "For tests.", "Not at all.", "Not real.", "CC-BY-4.0", "Nobody, 2026.")


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory, header: CardHeader) -> Path:
    """The dataset of the fake measurements, with its pictures, which take a second; never written to."""
    folder = tmp_path_factory.mktemp("fake")
    with RecordStore(folder / "records.jsonl") as opened:
        opened.append(list(fake_measurements()))
    return build_dataset([folder / "records.jsonl"], folder / "built", header=header).path


@pytest.fixture
def built(built_once: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(built_once, tmp_path / "built"))


@pytest.fixture(scope="session")
def records() -> list[Measurement]:
    """Kernels of one workload of a landscape, on 32 SMs and on the whole device."""
    workloads = ["matmul-m512-n512-k512"]
    return gpu_landscape(
        seed=5, workloads=workloads, configs_per_workload=60, sms=(32, 132)
    ).to_measurements()


@pytest.fixture(scope="session")
def pool(records: list[Measurement]) -> Pool:
    """Those of them that were measured on 32 SMs."""
    platform = landscape_platform(32)
    return Pool([m.candidate for m in records if m.platform == platform], platform)


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """A database of a real PostgreSQL server."""
    programs = postgres.programs()
    if programs is None:
        pytest.skip("needs the programs of a PostgreSQL server, and psycopg2")
    with postgres.server(programs) as url:
        yield url.format("postgres")


@pytest.fixture
def postgres_place(postgres_url: str) -> str:
    """The same, empty."""
    return postgres.emptied(postgres_url)
