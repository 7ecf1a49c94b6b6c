"""Reading what a service appends."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from costmodel.collector.runners._watched_service import LatencyLog
from costmodel.errors import CostModelError

pytestmark = pytest.mark.white_box


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "latencies.log"
    path.write_text("0.5\n0.5\n")
    return path


@pytest.fixture
def log(path: Path) -> Iterator[LatencyLog]:
    log = LatencyLog(path)
    yield log
    log.close()


def append(path: Path, text: str) -> None:
    with path.open("a") as out:
        out.write(text)


def test_what_is_appended_is_read_once_and_nothing_from_before(path: Path, log: LatencyLog) -> None:
    assert log.read() == []
    append(path, "0.001\n2e-3 GET /generate 200\n")
    assert log.read() == [0.001, 0.002]
    append(path, "  0.003\r\n\n")
    assert log.read() == [0.003]
    assert log.read() == []
    assert log.malformed == 0


def test_a_torn_line_is_read_when_it_is_whole(path: Path, log: LatencyLog) -> None:
    append(path, "0.001\n0.00")
    assert log.read() == [0.001]
    append(path, "2")
    assert log.read() == []
    append(path, "5\n0.003\n")
    assert log.read() == [0.0025, 0.003]


def test_of_a_line_that_is_torn_at_the_beginning_the_rest_is_no_latency(tmp_path: Path) -> None:
    path = tmp_path / "latencies.log"
    path.write_text("0.001\n0.0")
    log = LatencyLog(path)
    append(path, "02\n0.003\n")  # the rest of 0.002, which reads as two seconds
    assert log.read() == [0.003]
    log.close()


def test_a_file_that_was_empty_loses_no_line(tmp_path: Path) -> None:
    path = tmp_path / "latencies.log"
    path.touch()
    log = LatencyLog(path)
    append(path, "0.001\n")
    assert log.read() == [0.001]
    log.close()


@pytest.mark.parametrize("line", ["nan", "inf", "0", "-0.1", "GET 0.1", "0.1,0.2", "\x80"])
def test_what_is_no_latency_is_passed_over_and_counted(path: Path, log: LatencyLog, line: str) -> None:
    append(path, f"0.001\n{line}\n0.002\n")
    assert log.read() == [0.001, 0.002]
    assert log.malformed == 1


def test_a_file_that_is_replaced_is_read_from_its_beginning(path: Path, log: LatencyLog) -> None:
    append(path, "0.001\n0.0")
    path.rename(path.with_suffix(".1"))
    assert log.read() == [0.001]  # there is none now
    path.write_text("0.002\n")
    assert log.read() == [0.002]
    append(path, "0.003\n")
    assert log.read() == [0.003]


def test_a_file_that_is_emptied_is_read_from_its_beginning(path: Path, log: LatencyLog) -> None:
    path.write_text("0.1\n")
    assert log.read() == [0.1]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CostModelError, match=r"none\.log cannot be read .* Start the service first"):
        LatencyLog(tmp_path / "none.log")


def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "latencies.log")
    with pytest.raises(CostModelError, match="It is a named pipe, not a file"):
        LatencyLog(tmp_path / "latencies.log")
