"""Kernels are built in processes that stay from one task to the next."""

import os
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest

from costmodel.collector import EngineLostError
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.service import open_engine
from costmodel.service._builder_pool import BuilderPool
from costmodel.service._building import Building, _open_builders, _start

pytestmark = pytest.mark.white_box


def test_processes_here_stay_until_there_is_nothing_to_do() -> None:
    pytest.importorskip("pebble")
    with closing(Building(None)) as building:
        engine = building.engine()
        first = engine.submit(os.getpid).result()
        assert building.engine() is engine
        assert first != os.getpid()
        building.rest()
        assert not is_alive(first)
        assert is_alive(second := building.engine().submit(os.getpid).result())
    assert not is_alive(second)


def test_their_temporary_files_go_with_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pebble")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with closing(Building(None)) as building:
        building.engine()
        assert [path.name.rpartition("-")[0] for path in tmp_path.iterdir()] == ["costmodel-builds"]
    assert list(tmp_path.iterdir()) == []


def test_an_engine_with_an_address_stays_while_there_is_nothing_to_do() -> None:
    pytest.importorskip("pebble")
    with closing(Building("local://1")) as building:
        engine = building.engine()
        building.rest()
        assert building.engine() is engine


def test_an_engine_that_is_given_is_left_open() -> None:
    pytest.importorskip("pebble")
    with open_engine("local://1") as given:
        with closing(Building(given)) as building:
            assert building.engine() is given
            building.rest()
            with pytest.raises(EngineLostError, match="gone"):
                building.reopen(EngineLostError("gone"))
        assert given.submit(divmod, 7, 2).result() == (3, 1)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_builders_that_come_back_are_used_again(tmp_path: Path) -> None:
    pytest.importorskip("pebble")
    place = tmp_path / "b.sock"
    with open_engine("local://1") as processes:
        pool = BuilderPool(place, processes)
        with closing(Building(f"unix://{place}")) as building:
            assert building.engine().submit(divmod, 7, 2).result(60) == (3, 1)
            pool.close()
            with pytest.raises(EngineLostError) as lost:
                building.engine().submit(divmod, 7, 2).result(60)
            pools: list[BuilderPool] = []
            threading.Timer(0.2, lambda: pools.append(BuilderPool(place, processes))).start()
            building.reopen(lost.value)
            assert building.engine().submit(divmod, 7, 2).result(60) == (3, 1)
        pools[0].close()


def test_builders_start_at_once_and_each_imports_what_cannot_be_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pebble")
    trace = "import os, pathlib\npathlib.Path(__file__).with_name(f'{os.getpid()}.trace').touch()\n"
    (tmp_path / "leaves_a_trace.py").write_text(trace)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(MetaSchedule, "modules", ())
    monkeypatch.setattr(MetaSchedule, "unshared_modules", ("no_such_module", "leaves_a_trace"))
    with _open_builders(2, tmp_path, ["metaschedule"]) as engine:
        _start(engine)
        end = time.monotonic() + 60
        while len(list(tmp_path.glob("*.trace"))) < 2 and time.monotonic() < end:
            time.sleep(0.05)
        started = {int(path.stem) for path in tmp_path.glob("*.trace")}
        assert len(started) == 2
        assert os.getpid() not in started
        assert engine.submit(os.getpid).result(60) in started
