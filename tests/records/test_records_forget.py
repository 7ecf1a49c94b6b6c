"""What is forgotten is measured again, and everything else stays, whoever has the store open."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest
from fake_records import fake_measurement

from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome, RecordStore, forget_records, read_records
from costmodel.records._store import SharedRecordStore
from costmodel.records._table_log import TableLog

pytestmark = pytest.mark.white_box


def measured_ago(measurement: Measurement, **ago: float) -> Measurement:
    at = datetime.now(UTC) - timedelta(**ago)
    return msgspec.structs.replace(measurement, measured_at=at.isoformat(timespec="seconds"))


OLD = measured_ago(fake_measurement(tile=1), days=40)
NEW = measured_ago(fake_measurement(tile=2), days=1)
FAILED = fake_measurement(tile=4, outcome=Outcome.LAUNCH_ERROR)
TAKEN = msgspec.structs.replace(
    fake_measurement(tile=8, outcome=Outcome.LAUNCH_ERROR), error="CUDA_ERROR_OUT_OF_MEMORY"
)
ALL = [OLD, NEW, FAILED, TAKEN]
WORKLOAD = OLD.candidate.workload


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with RecordStore(tmp_path / "a.jsonl") as store:
        store.append(ALL)
    return tmp_path / "a.jsonl"


@pytest.mark.parametrize(
    ("criteria", "forgotten"),
    [
        ({"kernel": WORKLOAD.name}, ALL),
        ({"kernel": WORKLOAD.kind}, ALL),
        ({"kernel": f"{WORKLOAD.name[:4]}*"}, ALL),
        ({"kernel": WORKLOAD.name[:4]}, []),
        ({"config": {"tile": 2}}, [NEW]),
        ({"config": {"tile": "2"}}, [NEW]),
        ({"config": {"tile": 2, "other": 1}}, []),
        ({"outcome": "launch_error"}, [FAILED, TAKEN]),
        ({"outcome": Outcome.OK, "config": {"tile": 1}}, [OLD]),
        ({"passing": True}, [TAKEN]),
        ({"older_than": timedelta(days=30), "outcome": "ok"}, [OLD]),
        ({"older_than": timedelta(), "outcome": "ok"}, [OLD, NEW]),
        ({"older_than": timedelta(days=30), "config": {"tile": 2}}, []),
    ],
)
def test_what_meets_all_criteria_is_forgotten(path: Path, criteria: dict, forgotten: list) -> None:
    before = path.read_bytes()
    assert list(forget_records(path, **criteria, dry_run=True).measurements) == forgotten
    assert path.read_bytes() == before

    found = forget_records(path, **criteria)
    assert list(found.measurements) == forgotten
    assert list(read_records(path)) == [each for each in ALL if each not in forgotten]
    assert found.kept == len(ALL) - len(forgotten)
    if forgotten:
        assert list(read_records(found.moved_to)) == forgotten
        assert set(before.splitlines()) == {
            *path.read_bytes().splitlines(),
            *found.moved_to.read_bytes().splitlines(),
        }
    else:
        assert path.read_bytes() == before


def test_who_has_the_store_open_measures_again(path: Path) -> None:
    open_one = SharedRecordStore(path)
    open_one.refresh()
    assert open_one.get(NEW.key) == NEW

    forget_records(path, config={"tile": 2})
    again = measured_ago(NEW, hours=1)
    open_one.refresh()
    assert open_one.get(NEW.key) is None
    assert open_one.get(OLD.key) == OLD
    open_one.add([again])
    assert open_one.get(NEW.key) == again
    forget_records(path, config={"tile": 2})
    assert list(read_records(path.with_suffix(".forgotten.jsonl"))) == [NEW, again]


@pytest.mark.filterwarnings("ignore:.*must end in a whole line:RuntimeWarning")
def test_a_torn_tail_is_moved_out_and_nothing_of_it_is_lost(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])
    assert forget_records(path, config={"tile": 2}).kept == 2
    assert list(read_records(path)) == [OLD, FAILED]
    assert Path(f"{path}.torn").stat().st_size > 100


def test_who_keeps_a_store_to_himself_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("costmodel.records._forget._PATIENCE_S", 0.1)
    with RecordStore(path), pytest.raises(CostModelError, match="another process keeps it to itself"):
        forget_records(path, outcome="ok")
    assert list(read_records(path)) == ALL


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ({}, "no criterion is given"),
        ({"outcome": "failed"}, "outcome must be one of ok, invalid_config"),
        ({"older_than": timedelta(days=-1)}, "older_than must be from 0"),
        ({"older_than": timedelta.max}, "older_than must be from 0"),
    ],
)
def test_criteria_are_checked(path: Path, criteria: dict, message: str) -> None:
    with pytest.raises(CostModelError, match=message):
        forget_records(path, **criteria)
    assert list(read_records(path)) == ALL


def test_a_store_must_be_a_file(tmp_path: Path) -> None:
    for path in (tmp_path / "no.jsonl", tmp_path, tmp_path / ("x" * 5000)):
        with pytest.raises(CostModelError, match="must be a file"):
            forget_records(path, outcome="ok")
    assert not list(tmp_path.iterdir())


def test_in_a_database_it_is_forgotten_by_whoever_reads(tmp_path: Path) -> None:
    place = tmp_path / "a.db"
    store = SharedRecordStore(place)
    store.add(ALL)
    assert list(forget_records(place, outcome="launch_error", dry_run=True).measurements) == [FAILED, TAKEN]
    assert len(list(read_records(place))) == len(ALL)

    found = forget_records(place, outcome="launch_error")
    assert (list(found.measurements), found.kept) == ([FAILED, TAKEN], 2)
    store.refresh()
    assert store.get(FAILED.key) is None
    assert list(read_records(place)) == [OLD, NEW]
    assert [record for _, record in TableLog(str(place), "forgotten records").read_new()]
    store.add([FAILED])
    assert list(read_records(place)) == [OLD, NEW, FAILED]
    with pytest.raises(CostModelError, match="no file"):
        forget_records(tmp_path / "b.db", outcome="ok")
