"""Campaigns are killed with SIGKILL at random and resumed: nothing is lost, nothing is measured twice."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import command

from costmodel.records import read_records

pytestmark = pytest.mark.faults

KILLS = 40
HERE = Path(__file__).parent
TINY = """
runner = "cpu"
sms = [1, 2]
workloads = ["matmul-m32-n32-k32"]
repeat_share = 0.5
side_by_side = 1
[kernels]
random = 3
"""


def test_a_killed_campaign_loses_nothing_and_measures_nothing_twice() -> None:
    """More of it, and of a writer alone: experiments/kill_the_collector."""
    line = [sys.executable, HERE / "collect_until_killed.py", str(KILLS)]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    tally = json.loads(done.stdout)
    assert tally["kills"] == KILLS
    assert tally["finished"] > 0
    assert tally["committed"] > 1000
    assert (tally["lost"], tally["doubled"], tally["again"]) == (0, 0, 0)
    assert tally["torn"] == tally["repaired"] > 0


def stored_keys(folder: Path) -> list[str]:
    path = folder / "measurements.jsonl"
    return [measurement.key for measurement in read_records(path)] if path.exists() else []


def start_tiny(folder: Path, *arguments: object, temporary: Path) -> subprocess.Popen[str]:
    """``costmodel collect run`` of a tiny CPU campaign, in a process group of its own.

    All processes that it starts hold its stdout open, so that the end of stdout is the end of all of them.
    """
    temporary.mkdir(exist_ok=True)
    config = folder.with_suffix(".toml")
    config.write_text(TINY)
    return subprocess.Popen(
        command("collect", "run", config, "--out", folder, *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )


def wait_for_progress(child: subprocess.Popen[str], folder: Path, measurements: int) -> None:
    while len(stored_keys(folder)) < measurements:
        assert child.poll() is None
        time.sleep(0.01)


@pytest.mark.tvm
def test_a_killed_real_campaign_goes_on_and_leaves_no_process_behind(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    folder, temporary = tmp_path / "out", tmp_path / "tmp"
    stored: list[str] = []
    for kill in (os.kill, os.killpg):
        child = start_tiny(folder, temporary=temporary)
        wait_for_progress(child, folder, len(stored) + 1)
        kill(child.pid, signal.SIGKILL)
        child.communicate(timeout=600)
        before, stored = stored, stored_keys(folder)
        assert stored[: len(before)] == before
        # What the first one left is gone with the second.
        assert len(list(temporary.glob("costmodel-*"))) == 1
    child = start_tiny(folder, "--json", tmp_path / "report.json", temporary=temporary)
    child.communicate(timeout=600)
    assert child.returncode == 0
    before, stored = stored, stored_keys(folder)
    assert stored[: len(before)] == before
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["measured"] == len(stored) - len(before)
    assert (report["finished"], report["stored"]) == (True, len(stored))
    assert len(set(stored)) == len(stored) >= 6
    assert not list(temporary.iterdir())


@pytest.mark.tvm
def test_workers_end_with_a_killed_parent_even_while_a_kernel_hangs(tmp_path: Path) -> None:
    pytest.importorskip("tvm")
    with subprocess.Popen(
        [sys.executable, HERE / "measure_hanging_kernel.py"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "hanging\n"
        child.kill()
        child.communicate(timeout=600)  # until the last process has closed stdout
