"""An empty store of MLflow, which takes seconds to make: made once, then copied; and a dataset to log."""

import shutil
from pathlib import Path

import pytest

from costmodel.dataset import CardHeader, build_dataset
from costmodel.records import RecordStore
from costmodel.testing import gpu_landscape
from costmodel.tracking import MlflowTracker

WORKLOADS = ("matmul-m512-n512-k512", "matmul-m128-n768-k768", "matmul-m64-n2304-k768")


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file without runs; never written to."""
    file = tmp_path_factory.mktemp("mlflow") / "empty.db"
    MlflowTracker(str(file))
    return file


@pytest.fixture
def store(empty_store: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copy(empty_store, tmp_path / "mlflow.db"))


@pytest.fixture
def tracker(store: Path) -> MlflowTracker:
    """What keeps runs in that copy."""
    return MlflowTracker(str(store))


@pytest.fixture(scope="session")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three workloads of a landscape with a known formula on three SM budgets."""
    folder = tmp_path_factory.mktemp("landscape")
    landscape = gpu_landscape(seed=2, workloads=WORKLOADS, configs_per_workload=20, sms=(8, 32, 132))
    with RecordStore(folder / "records.jsonl") as opened:
        opened.append(landscape.to_measurements())
    header = CardHeader("Landscape", "For tests.", "A formula.", "Not real.", "CC0-1.0", "Nobody, 2026.")
    build_dataset([folder / "records.jsonl"], folder / "landscape", header=header)
    return folder / "landscape"
