"""Ctrl-C: each command says truly what is left, and whether the same command goes on."""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from command_line import command

pytestmark = pytest.mark.timeout(300)

WORKLOAD = "matmul-m16-n1024-k1024"
GOES_ON = "Run the same command again: it goes on where it stopped."


def interrupted(
    begun: Callable[[subprocess.Popen[str]], None], *arguments: object, before: str = "pass"
) -> str:
    """What a command says on stderr that gets Ctrl-C, with all its processes, once it has begun."""
    # A shell makes its background jobs ignore SIGINT, and these tests with them.
    listen = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
    python, option, main, *rest = command(*arguments)
    with subprocess.Popen(
        [python, option, f"{listen}; {before}; {main}", *rest],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        begun(process)
        os.killpg(process.pid, signal.SIGINT)
        said = process.communicate()[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said
    return said


def exists(file: Path) -> Callable[[subprocess.Popen[str]], None]:
    """Waits until a file has something in it."""

    def wait(process: subprocess.Popen[str]) -> None:
        while process.poll() is None and not (file.exists() and file.stat().st_size):
            time.sleep(0.02)

    return wait


def has_started(processes: int, later_s: float) -> Callable[[subprocess.Popen[str]], None]:
    """Waits until a command has so many processes of its own: a tracker of resources, then workers."""
    import psutil  # comes with the tvm extra

    def wait(process: subprocess.Popen[str]) -> None:
        while process.poll() is None and len(psutil.Process(process.pid).children()) < processes:
            time.sleep(0.01)
        time.sleep(later_s)

    return wait


def test_a_search_that_is_kept_goes_on(tmp_path: Path) -> None:
    study = tmp_path / "study.log"
    search = ("tune", WORKLOAD, "--sms", 32, "--learner", "ridge", "--trials", 60, "--study", study)
    assert GOES_ON in interrupted(exists(study), *search, "--plot", tmp_path / "a.png")


@pytest.mark.tvm
@pytest.mark.faults
@pytest.mark.parametrize("processes", [2, 3])
@pytest.mark.parametrize("later_s", [0.0, 0.3])
def test_a_campaign_goes_on_while_its_workers_start(tmp_path: Path, processes: int, later_s: float) -> None:
    pytest.importorskip("tvm")
    begun = has_started(processes, later_s)
    assert GOES_ON in interrupted(begun, "collect", "run", "cpu-quick", "--out", tmp_path / "cpu")


@pytest.mark.tvm
@pytest.mark.faults
@pytest.mark.parametrize("file", ["campaign.json", "measurements.jsonl"])
def test_a_campaign_goes_on(tmp_path: Path, file: str) -> None:
    pytest.importorskip("tvm")
    begun = exists(tmp_path / "cpu" / file)
    assert GOES_ON in interrupted(begun, "collect", "run", "cpu-quick", "--out", tmp_path / "cpu")


@pytest.mark.parametrize(
    "line",
    [
        ("evaluate", "--out", "OUT", "--config"),
        ("dataset", "build", "h100-sm-budgets", "--out", "OUT", "--card"),
        ("dataset", "merge", "h100-sm-budgets", "--out", "OUT", "--card"),
        ("devices", "list", "--json", "OUT", "--own"),
    ],
    ids=" ".join,
)
def test_what_cannot_go_on_says_that_nothing_was_written(tmp_path: Path, line: tuple[str, ...]) -> None:
    out, read, begun = tmp_path / "out", tmp_path / "read.toml", tmp_path / "begun"
    read.touch()
    arguments = [out if each == "OUT" else each for each in line]
    slow = f"(open({str(begun)!r}, 'w').write('x'), time.sleep(100))"  # a parser that takes its time
    before = f"import time, tomllib; tomllib.loads = lambda _: {slow}"
    assert (
        interrupted(exists(begun), *arguments, read, before=before) == "Interrupted. Nothing was written.\n"
    )
    assert not out.exists()
