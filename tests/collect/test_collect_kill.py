"""Campaigns are killed with SIGKILL at random and resumed: nothing is lost, nothing is measured twice."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest
from collect_until_killed import LONG
from command_line import command
from fake_collector import FakeCollector, files

from costmodel.collect import Campaign
from costmodel.records import read_records

KILLS = 55
COLLECT = Path(__file__).with_name("collect_until_killed.py")
TINY = """
runner = "cpu"
sms = [1, 2]
workloads = ["matmul-m32-n32-k32"]
repeat_share = 0.5
[kernels]
random = 3
"""


def stored_keys(folder: Path) -> list[str]:
    path = folder / "measurements.jsonl"
    return [measurement.key for measurement in read_records(path)] if path.exists() else []


def collect_and_kill(folder: Path, log: Path, seconds: float) -> list[str]:
    """Keys that a campaign acknowledged before it was killed, given this long after its start."""
    command = [sys.executable, COLLECT, folder, log, "0.004"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "start\n"
        time.sleep(seconds)
        child.kill()
        # A line that the kill cut was acknowledged in part only.
        lines = child.stdout.read().splitlines(keepends=True)
    assert child.returncode == -signal.SIGKILL
    assert "end\n" not in lines
    return [line.strip() for line in lines if line.endswith("\n")]


def test_a_killed_campaign_loses_nothing_and_measures_nothing_twice(tmp_path: Path) -> None:
    folder, log, chance = tmp_path / "killed", tmp_path / "log", random.Random(0)
    stored: list[str] = []
    progressed = 0
    for _ in range(KILLS):
        begun = len(log.read_text().split()) if log.exists() else 0
        acknowledged = collect_and_kill(folder, log, chance.uniform(0.0, 0.1))
        before, stored = stored, stored_keys(folder)
        assert stored[: len(before)] == before
        assert acknowledged == stored[: len(acknowledged)]
        assert not set(before) & set(log.read_text().split()[begun:] if log.exists() else ())
        progressed += len(stored) > len(before)
    assert progressed > KILLS / 4
    assert Campaign(LONG, collector := FakeCollector(), folder).run().finished
    assert collector.measured

    Campaign(LONG, FakeCollector(), tmp_path / "whole").run()
    whole = files(tmp_path / "whole")
    assert {name: content for name, content in files(folder).items() if name in whole} == whole
    assert len(set(stored)) == len(stored)
    # Only what was in flight when it was killed may have been begun again.
    begun_twice = [key for key, times in Counter(log.read_text().split()).items() if times > 1]
    assert len(begun_twice) <= KILLS


def start_tiny(folder: Path, *arguments: object, temporary: Path) -> subprocess.Popen[str]:
    """``costmodel collect`` of a tiny CPU campaign, in a process group of its own.

    All processes that it starts hold its stdout open, so that the end of stdout is the end of all of them.
    """
    temporary.mkdir(exist_ok=True)
    config = folder.with_suffix(".toml")
    config.write_text(TINY)
    return subprocess.Popen(
        command("collect", config, "--out", folder, *arguments),
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
        child.communicate(timeout=60)
        before, stored = stored, stored_keys(folder)
        assert stored[: len(before)] == before
        # What the first one left is gone with the second.
        assert len(list(temporary.glob("costmodel-*"))) == 1
    child = start_tiny(folder, "--json", tmp_path / "report.json", temporary=temporary)
    child.communicate(timeout=60)
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
        [sys.executable, Path(__file__).with_name("measure_hanging_kernel.py")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "hanging\n"
        child.kill()
        child.communicate(timeout=60)  # until the last process has closed stdout
