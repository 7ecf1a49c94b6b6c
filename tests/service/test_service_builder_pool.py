"""Builders that the workers of a machine share keep the contract of an engine, and forget the dead."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from multiprocessing.connection import Listener
from pathlib import Path

import pytest

from costmodel.collector import EngineLostError, LocalEngine
from costmodel.errors import CostModelError
from costmodel.service import open_engine
from costmodel.service._builder_pool import BuilderPool, PoolEngine, _hang_up
from costmodel.testing import ENGINE_CHECKS, EngineCase

pytestmark = pytest.mark.white_box


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    pytest.importorskip("pebble")
    with LocalEngine(2, resources={"build": 1.0}, modules=("costmodel.collector._builders",)) as opened:
        yield opened


@pytest.fixture
def socket(engine: LocalEngine, tmp_path: Path) -> Iterator[Path]:
    pool = BuilderPool(tmp_path / "pool" / "b.sock", engine)
    yield tmp_path / "pool" / "b.sock"
    pool.close()


@pytest.mark.parametrize("check", ENGINE_CHECKS)
def test_builders_that_are_shared_keep_the_contract(
    check: Callable[[EngineCase], None], socket: Path
) -> None:
    check(EngineCase(lambda: PoolEngine(socket), {"build": 1.0}))


def test_workers_take_turns(engine: LocalEngine, socket: Path) -> None:
    with PoolEngine(socket) as many, PoolEngine(socket) as few:
        first = [many.submit(time.sleep, 0.05) for _ in range(60)]
        assert few.submit(divmod, 7, 2).result(60) == (3, 1)
        assert not first[-1].done()


def test_what_waits_for_a_worker_that_left_is_forgotten(socket: Path, tmp_path: Path) -> None:
    gone, marks = PoolEngine(socket), tmp_path / "marks"
    marks.mkdir()
    for number in range(40):
        gone.submit(touch, marks / str(number))
    _hang_up(gone._connection)  # as when it is killed: nothing is cancelled
    with PoolEngine(socket) as other:
        assert other.submit(divmod, 7, 2).result(60) == (3, 1)
    assert len(list(marks.iterdir())) < 40


def test_a_pool_that_is_gone_is_said_to_be_lost(engine: LocalEngine, tmp_path: Path) -> None:
    pool = BuilderPool(tmp_path / "b.sock", engine)
    with open_engine(f"unix://{tmp_path / 'b.sock'}") as worker:
        running = worker.submit(time.sleep, 0.2)
        pool.close()
        assert isinstance(running.exception(60), EngineLostError)
        with pytest.raises(EngineLostError, match="jobs builders"):
            worker.submit(divmod, 7, 2)
    with pytest.raises(CostModelError, match="Start them with"):
        PoolEngine(tmp_path / "b.sock", connect_timeout_s=0.0)


def test_a_pool_that_ends_as_a_worker_connects_is_waited_for(engine: LocalEngine, tmp_path: Path) -> None:
    """It may be killed at any moment, and started again."""
    socket = tmp_path / "b.sock"

    def hang_up_twice_and_serve() -> BuilderPool:
        with Listener(str(socket), "AF_UNIX") as listener:
            for _ in range(2):
                listener.accept().close()
        return BuilderPool(socket, engine)

    with ThreadPoolExecutor(1) as threads:
        served = threads.submit(hang_up_twice_and_serve)
        while not socket.exists():
            time.sleep(0.01)
        with PoolEngine(socket, connect_timeout_s=60) as connected, closing(served.result()):
            assert connected.submit(divmod, 7, 2).result(100) == (3, 1)


def test_two_pools_cannot_have_one_socket_but_one_may_follow_another(
    engine: LocalEngine, tmp_path: Path
) -> None:
    place = tmp_path / "b.sock"
    first = BuilderPool(place, engine)
    with pytest.raises(CostModelError, match="one listens"):
        BuilderPool(place, engine)
    first.close()
    second = BuilderPool(place, engine)
    assert place.stat().st_mode & 0o077 == 0
    second.close()


def test_an_address_that_is_no_socket_is_refused() -> None:
    with pytest.raises(CostModelError, match="unix:///"):
        open_engine("unix://host/path")


def touch(path: Path) -> None:
    time.sleep(0.05)
    path.touch()
