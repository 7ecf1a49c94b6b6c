import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from multiprocessing import resource_tracker
from pathlib import Path

import pytest

from costmodel.collector.processes import HeldFolder, WorkerDiedError, Workers
from costmodel.errors import CostModelError, last_line


def test_the_next_folder_deletes_those_that_nobody_holds(tmp_path: Path) -> None:
    (tmp_path / "held-left").mkdir()
    (tmp_path / "held-left" / "a.so").touch()
    (tmp_path / "other").mkdir()
    first, second = HeldFolder("held-", tmp_path), HeldFolder("held-", tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([first.path, second.path, tmp_path / "other"])
    assert first.path.name.startswith("held-")
    first.delete()
    first.delete()
    assert sorted(tmp_path.iterdir()) == sorted([second.path, tmp_path / "other"])
    second.delete()
    assert list(tmp_path.iterdir()) == [tmp_path / "other"]


def test_a_folder_is_made_where_temporary_files_go(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    folder = HeldFolder("held-")
    assert folder.path.parent == tmp_path
    folder.delete()


def test_a_link_to_elsewhere_is_not_followed(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / "held-link").symlink_to(precious)
    HeldFolder("held-", tmp_path).delete()
    assert (precious / "file").exists()


def test_what_must_happen_first_happens_for_folders_that_were_left_too(tmp_path: Path) -> None:
    (tmp_path / "held-left").mkdir()
    released: list[str] = []

    def release(folder: Path) -> None:
        assert folder.exists()
        released.append(folder.name)

    held = HeldFolder("held-", tmp_path, release)
    assert released == ["held-left"]
    held.delete()
    held.delete()
    assert released == ["held-left", held.path.name]


def test_a_folder_that_cannot_be_released_hinders_nobody(tmp_path: Path) -> None:
    (tmp_path / "held-left").mkdir()

    def refuse(folder: Path) -> None:
        raise CostModelError(f"{folder.name} is stuck")

    held = HeldFolder("held-", tmp_path, refuse)
    with pytest.raises(CostModelError, match="is stuck"):
        held.delete()
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("first\nld: no space left\n\nCommand line: g++ -o a.so\n", "ld: no space left"),
        ("Traceback\n  error: too many registers  ", "error: too many registers"),
        ("", "RuntimeError"),
        ("x" * 400, "x" * 300),
    ],
)
def test_the_last_line_says_what_went_wrong(message: str, said: str) -> None:
    assert last_line(RuntimeError(message)) == said


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[Workers]:
    pytest.importorskip("pebble")
    opened = Workers(1, tmp_path)
    yield opened
    opened.close()


def test_a_job_may_succeed_fail_hang_or_die(workers: Workers) -> None:
    with pytest.raises(ZeroDivisionError):
        workers.submit(divmod, 1, 0).result(600)
    with pytest.raises(TimeoutError):
        workers.submit(time.sleep, 600, timeout_s=0.1).result(600)
    with pytest.raises(WorkerDiedError, match="exit code 7"):
        workers.submit(os._exit, 7).result(600)
    assert workers.submit(divmod, 7, 2).result(600) == (3, 1)


def test_temporary_files_of_a_worker_go_into_its_folder(workers: Workers, tmp_path: Path) -> None:
    assert workers.submit(os.getenv, "TMPDIR").result(600) == str(tmp_path)


def test_what_a_restart_loses_is_told(workers: Workers) -> None:
    running, waiting = workers.submit(time.sleep, 600), workers.submit(time.sleep, 600)
    workers.restart()
    for future in (running, waiting):
        with pytest.raises(WorkerDiedError):
            future.result(600)
    assert workers.submit(divmod, 7, 2).result(600) == (3, 1)


def test_what_closing_loses_is_cancelled(workers: Workers) -> None:
    running, waiting = workers.submit(time.sleep, 600), workers.submit(time.sleep, 600)
    workers.close()
    assert not wait([running, waiting], 600).not_done
    for future in (running, waiting):
        with pytest.raises(CancelledError):
            future.result()


def test_a_job_that_its_caller_gave_up_disturbs_nobody(workers: Workers, caplog) -> None:
    given_up, wanted = workers.submit(time.sleep, 0.1), workers.submit(divmod, 7, 2)
    assert given_up.cancel()
    assert wanted.result(600) == (3, 1)
    assert not caplog.records


@pytest.mark.parametrize("waited_s", [0.0, 0.001, 0.01, 0.1])
def test_an_interrupt_does_not_reach_a_worker_that_starts(tmp_path: Path, waited_s: float, capfd) -> None:
    pytest.importorskip("pebble")
    this = pytest.importorskip("psutil").Process()
    resource_tracker.ensure_running()  # a process of its own
    others = set(this.children())
    workers = Workers(1, tmp_path)
    with ThreadPoolExecutor(1) as thread:
        submitted = thread.submit(workers.submit, divmod, 7, 2)
        while not (worker := set(this.children()) - others):
            pass
        time.sleep(waited_s)
        worker.pop().send_signal(signal.SIGINT)
        assert submitted.result().result(600) == (3, 1)
    workers.close()
    assert "Traceback" not in capfd.readouterr().err
