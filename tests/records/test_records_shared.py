"""A store that processes share, a file or a database, keeps each measurement once, and they take turns."""

import multiprocessing
import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import postgres
import pytest
import sqlalchemy
from fake_records import fake_measurement
from msgspec.structs import replace

from costmodel.errors import CostModelError
from costmodel.records import Measurement, read_records
from costmodel.records import _table_log as table_log
from costmodel.records._store import SharedRecordStore
from costmodel.records._table_log import TableLog

pytestmark = pytest.mark.white_box

TILES = range(1, 9)


@pytest.fixture(params=["file", "sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The place of an empty store."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgres_place")
        return url
    return str(tmp_path / ("store.jsonl" if request.param == "file" else "store.db"))


def measurements() -> list[Measurement]:
    return [fake_measurement(tile=tile) for tile in TILES]


def test_what_one_adds_the_other_reads(place: str) -> None:
    first, second = SharedRecordStore(place), SharedRecordStore(place)
    first.add(measurements()[:3])
    second.refresh()
    second.add(measurements()[3:])
    first.refresh()
    assert [first.get(each.key) for each in measurements()] == measurements()
    assert list(read_records(place)) == measurements()


def test_of_two_measurements_of_one_key_the_first_stays(place: str) -> None:
    first, second = SharedRecordStore(place), SharedRecordStore(place)
    one = fake_measurement()
    other = replace(one, latencies_s=(1.0, 2.0))
    first.add([one])
    second.add([other])
    first.refresh()
    assert first.get(one.key) == second.get(one.key) == one
    assert list(read_records(place)) == [one]


def test_processes_that_add_at_once_lose_nothing(place: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=add_each, args=(place, visit)) for visit in range(2)]
    for process in processes:
        process.start()
    reader = SharedRecordStore(place)  # which looks while they write
    while any(process.is_alive() for process in processes):
        reader.refresh()
        time.sleep(0.02)
    for process in processes:
        process.join()
        assert process.exitcode == 0
    reader.refresh()
    wanted = {fake_measurement(tile=tile, visit=visit).key for tile in TILES for visit in range(2)}
    assert {each.key for each in read_records(place)} == wanted
    assert all(reader.get(key) for key in wanted)
    assert len(list(read_records(place))) == len(wanted)


def add_each(place: str, visit: int) -> None:
    """Add some that nobody else does, and some that all do."""
    store = SharedRecordStore(place)
    for tile in TILES:
        store.add([fake_measurement(tile=tile, visit=visit), fake_measurement(tile=tile)])


def test_one_does_it_and_the_others_wait_until_it_is_done(place: str) -> None:
    done: list[str] = []

    def do(store: SharedRecordStore) -> None:
        def is_over() -> bool:
            store.refresh()
            return store.get(measurements()[-1].key) is not None

        with store.turn("a kernel", is_over) as mine:
            if mine:
                for each in measurements():
                    time.sleep(0.01)
                    store.add([each])
            done.append("made" if mine else "taken")
            assert is_over()

    threads = [threading.Thread(target=do, args=(SharedRecordStore(place),)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(done) == ["made", "taken", "taken", "taken"]
    assert list(read_records(place)) == measurements()


def test_who_does_not_wait_goes_on_without(place: str) -> None:
    first, second = SharedRecordStore(place), SharedRecordStore(place)
    with first.turn("a", lambda: False) as mine, second.turn("a", lambda: False, waits=False) as others:
        assert (mine, others) == (True, False)
        with second.turn("b", lambda: False, waits=False) as another:
            assert another
    with second.turn("a", lambda: False, waits=False) as next_:
        assert next_


def test_a_process_that_is_killed_has_no_turn(place: str) -> None:
    spawn = multiprocessing.get_context("spawn")
    has = spawn.Event()
    process = spawn.Process(target=keep_turn, args=(place, has))
    process.start()
    has.wait(60)
    store = SharedRecordStore(place)
    with store.turn("a", lambda: False, waits=False) as mine:
        assert not mine
    process.kill()
    process.join()
    with store.turn("a", lambda: False) as mine:
        assert mine


def keep_turn(place: str, has: "threading.Event") -> None:
    with SharedRecordStore(place).turn("a", lambda: False):
        has.set()
        time.sleep(600)


def test_a_process_that_keeps_nothing_is_not_waited_for_forever(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costmodel.records._store._PATIENCE_S", 0.05)
    first, second = SharedRecordStore(place), SharedRecordStore(place)
    with first.turn("a", lambda: False), second.turn("a", lambda: False) as others:
        assert not others


@pytest.fixture
def short_turns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(table_log, "TURN_S", 0.4)
    monkeypatch.setattr("costmodel.liveness.socket.gethostname", lambda: f"host-{threading.get_native_id()}")
    return iter(())


@pytest.mark.usefixtures("short_turns")
def test_a_turn_of_another_machine_lasts_as_long_as_it_is_renewed(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path / "a.db"), "record store")
    release = log.take_turn("a")
    assert release
    time.sleep(1.0)
    assert taken_elsewhere(log) is False
    log._renew = lambda key, holder: None  # type: ignore[method-assign]  # as when the machine is gone
    time.sleep(1.0)
    assert taken_elsewhere(log) is True
    release()  # too late: it is another's
    assert taken_elsewhere(log) is False


@pytest.mark.usefixtures("short_turns")
def test_a_turn_that_is_renewed_too_late_but_before_it_is_taken_stays(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path / "a.db"), "record store")
    values = {"key": "a", "holder": "late", "until": time.time() - 1.0}
    with log._engine.begin() as connection:
        connection.execute(table_log.TURNS.insert().values(values))
    (seen,) = log._read(table_log._TURN, of="a")
    log._renew("a", "late")
    assert not log._succeed(seen, "next")
    (seen,) = log._read(table_log._TURN, of="a")
    assert seen.holder == "late"


def taken_elsewhere(log: TableLog) -> bool:
    """Whether a process of another machine gets the turn; it keeps it."""
    found: list[bool] = []
    thread = threading.Thread(target=lambda: found.append(log.take_turn("a") is not None))
    thread.start()
    thread.join()
    return found[0]


def test_what_somebody_deletes_is_forgotten_by_readers(tmp_path: Path) -> None:
    store = SharedRecordStore(tmp_path / "a.db")
    store.add(measurements())
    with store._lines._engine.begin() as connection:  # type: ignore[attr-defined]
        connection.execute(table_log.RECORDS.delete().where(table_log.RECORDS.c.id <= 2))
    store.refresh()
    assert [store.get(each.key) for each in measurements()] == [None, None, *measurements()[2:]]


def test_a_file_that_is_deleted_is_forgotten_by_all_that_have_it_open(tmp_path: Path) -> None:
    """That is how to forget all of it, says ``forget_records``; the disk may give the same number again."""
    place = tmp_path / "deep" / "store.jsonl"
    first, second = SharedRecordStore(place), SharedRecordStore(place)
    first.add(measurements())
    second.refresh()
    shutil.rmtree(place.parent)
    second.refresh()
    assert second.measurements == ()
    second.add(measurements()[:2])
    first.refresh()
    assert first.measurements == tuple(measurements()[:2])
    place.write_bytes(b"")
    first.add(measurements()[5:])
    second.refresh()
    assert second.measurements == tuple(read_records(place)) == tuple(measurements()[5:])


def test_who_waits_asks_one_question_at_a_time_and_writes_nothing(tmp_path: Path) -> None:
    log, other = (TableLog(str(tmp_path / "a.db"), "record store") for _ in range(2))
    release = other.take_turn("a")
    assert release
    list(log.read_new())
    asked: list[str] = []
    sqlalchemy.event.listen(log._engine, "before_cursor_execute", lambda *told: asked.append(told[2]))
    assert not log.start_over_if_replaced()
    assert not list(log.read_new())
    assert log.take_turn("a") is None
    assert [each.split()[0] for each in asked] == ["SELECT", "SELECT"]
    release()
    assert log.take_turn("a")


def test_what_is_read_behind_a_look_is_read_once(tmp_path: Path) -> None:
    log = TableLog(str(tmp_path / "a.db"), "record store")
    log.append([b"1", b"2"])
    assert not log.start_over_if_replaced()
    assert next(log.read_new()) == (1, b"1")
    log.append([b"3"])
    assert list(log.read_new()) == [(2, b"2")]
    assert list(log.read_new()) == [(3, b"3")]


def test_readers_of_a_file_pass_its_writers(tmp_path: Path) -> None:
    TableLog(str(tmp_path / "a.db"), "record store").append([b"1"])
    with closing(sqlite3.connect(tmp_path / "a.db", timeout=0)) as one:
        one.execute("BEGIN EXCLUSIVE")
        assert list(TableLog(str(tmp_path / "a.db"), "record store").read_new()) == [(1, b"1")]


def test_a_server_may_end_connections(postgres_place: str) -> None:
    store, other = SharedRecordStore(postgres_place), SharedRecordStore(postgres_place)
    store.refresh()
    postgres.end_connections(postgres_place)
    other.add(measurements())
    store.refresh()
    assert [store.get(each.key) for each in measurements()] == measurements()


def test_logs_of_one_database_are_apart(tmp_path: Path) -> None:
    place = str(tmp_path / "a.db")
    TableLog(place, "programs").append([b'{"other": 1}'])
    store = SharedRecordStore(place)
    store.add(measurements())
    store.refresh()
    assert list(read_records(place)) == measurements()


@pytest.mark.parametrize("record", [b"\xff\xfe", "no JSON", "null", 7])
def test_a_row_that_nobody_wrote_is_refused(tmp_path: Path, record: object) -> None:
    store = SharedRecordStore(tmp_path / "a.db")
    store.add(measurements()[:1])
    with closing(sqlite3.connect(tmp_path / "a.db")) as connection, connection:
        connection.execute("UPDATE costmodel_records SET record = ?", (record,))
    with pytest.raises(CostModelError, match=r"a\.db"):
        list(read_records(tmp_path / "a.db"))


def test_reading_makes_no_store(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match="no file"):
        list(read_records(tmp_path / "a.db"))
    assert list(tmp_path.iterdir()) == []


def test_a_database_that_is_none_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.db").write_bytes(os.urandom(4096))
    with pytest.raises(CostModelError, match="must be a database that answers"):
        SharedRecordStore(tmp_path / "a.db")
    with pytest.raises(CostModelError, match=r"\.jsonl"):
        SharedRecordStore(tmp_path / "a.txt")
