import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from experiment_folder import found_beside, without_tensor_intrinsics

FOLDER = Path(__file__).parents[2] / "experiments" / "live_search"
MODULES = ("limited", "report", "results", "run", "searches", "side_by_side", "stages", "stock_part")
MATMUL = "matmul-m32-n32-k32"


@pytest.fixture(autouse=True)
def folder_on_path() -> Iterator[None]:
    """The experiment's modules are found beside each other."""
    with found_beside(FOLDER, MODULES):
        yield


def found(*steps: tuple[float, int, float], seconds: float, measured: int) -> dict[str, object]:
    """A search by elapsed seconds, trial and latency of its improvements."""
    improvements = [
        {"elapsed_s": s, "trial": trial, "latency_s": latency_s, "repeat_s": latency_s}
        for s, trial, latency_s in steps
    ]
    return {"seconds": seconds, "measured": measured, "failed": 0, "improvements": improvements}


FOUND = found((10.0, 1, 4e-6), (20.0, 2, 5e-6), (30.0, 3, 2e-6), seconds=40.0, measured=4)


def test_what_a_search_gives_at_a_time_is_what_it_then_took_for_the_best() -> None:
    best_at = import_module("report").best_at  # its second improvement is one by its own stopwatch only
    assert [best_at(FOUND, s) for s in (9.0, 10.0, 25.0, 30.0)] == [np.inf, 4e-6, 5e-6, 2e-6]


def test_a_latency_is_reached_by_the_first_kernel_that_is_as_fast() -> None:
    time_to = import_module("report").time_to
    assert [time_to(FOUND, s) for s in (4e-6, 3e-6, 1e-6)] == [10.0, 30.0, np.inf]


def test_searches_are_compared_at_equal_times_and_after_equal_trials() -> None:
    """Ours ends after 50 s and 8 trials; stock's then has its first kernel, and 4 trials after 100 s."""
    searches = import_module("searches")
    ours = found((10.0, 3, 4e-6), (40.0, 8, 2e-6), seconds=50.0, measured=8)
    stock = found((45.0, 2, 8e-6), (90.0, 4, 5e-6), seconds=100.0, measured=4)
    row = {"workload": MATMUL, "sms": 0, "searches": {searches.OURS: ours, searches.FAIR: stock}}
    text = import_module("report").table([row])
    assert "latency when stock, early model is through 0.400 (geometric mean" in text  # 2 / 5
    assert "At equal times 0.250" in text  # 2 / 8 at 50 s
    assert "after equal trials 0.800" in text  # 4 / 5 after 4 trials
    assert f"| {MATMUL} | whole | 1 | costmodel | 8 | 0 | 50 | 2.00 |" in text


def test_stages_are_compared_at_equal_times() -> None:
    stages = import_module("stages")
    staged = found((6.0, 3, 4e-6), (11.0, 8, 2e-6), seconds=20.0, measured=8)
    plain = found((4.0, 2, 8e-6), (14.0, 4, 5e-6), seconds=20.0, measured=4)
    searches = {stages.STAGED: staged, stages.PLAIN: plain, stages.STOCK: plain}
    text = stages.as_markdown([{"workload": MATMUL, "sms": 0, "searches": searches}])
    assert f"| {MATMUL} | whole | 2.00; 8 | 5.00; 4 | 5.00; 4 |" in text
    (line,) = [line for line in text.splitlines() if f"{stages.STAGED} / {stages.PLAIN}" in line]
    assert [cell.split()[0] for cell in line.split("|")[2:-1]] == ["unknown", "0.500", "0.400", "0.400"]


def test_all_cases_have_as_long_and_no_search_less_than_asked_for() -> None:
    seconds_of_each = import_module("stages").seconds_of_each
    found = [seconds_of_each(s, 3, 2, 15.0, 60.0) for s in (336.0, 60.0, 6000.0)]
    assert found == [50.0, 15.0, 60.0]


def test_the_recorded_run_says_what_the_readme_says() -> None:
    table = import_module("report").table(json.loads((FOLDER / "result.json").read_text()))
    assert "costmodel beside stock, 8 cases: latency when stock is through 0.643 (geometric mean" in table
    assert "time to its latency cut by 80% (median), 71% at least." in table
    assert "costmodel beside stock, our builders, 3 cases: " in table
    assert "through 0.746" in table
    assert "| conv2d-n1-c256-h14-w14-o256-k3-s1 | 32 | 1 | costmodel | 128 | 0 | 251 | 48.24 |" in table


def test_the_recorded_stages_say_what_the_readme_says() -> None:
    found = json.loads((FOLDER / "result_stages.json").read_text())
    text = import_module("stages").as_markdown(found)
    readme = (FOLDER / "README.md").read_text()
    rows = [
        line
        for line in text.splitlines()
        if line.startswith(tuple(f"| {row['workload']} |" for row in found))
    ]
    assert len(rows) == 10
    assert all(row in readme for row in rows)
    assert "| 1.013 (geometric mean; 0.999 to 1.082, 2 unknown) |" in text


def test_important_searches_come_first() -> None:
    run, names = import_module("run"), import_module("searches")
    jobs = run.plan(run.parse(["--out", "o", "--json", "j"]))
    assert [job.name for job in jobs] == [names.OURS, names.FAIR] * 8 + [names.STOCK] * 2
    assert {(job.case.workload, job.case.sms) for job in jobs[:8]} == {
        (job.case.workload, job.case.sms) for job in jobs
    }  # the first seed's cover all cases
    assert [job.case.seed for job in jobs] == [1] * 8 + [2] * 8 + [1] * 2
    assert [job.trials for job in jobs[-2:]] == [512, 512]


def test_results_are_resumed_and_forget_no_search(tmp_path: Path) -> None:
    searches, results = import_module("searches"), import_module("results")
    first, second = searches.Case(MATMUL, 8, 1), searches.Case(MATMUL, 8, 2)
    kept = results.Results(tmp_path / "first.json")
    raw = {"seconds": 1.0, "measured": 2, "failed": 0}
    steps = [{"elapsed_s": 1.0, "trial": trial, "run_s": 1e-6, "trace": "[]"} for trial in (1, 2)]
    kept.add(first, searches.OURS, {**raw, "improvements": steps})
    kept.judge(MATMUL, 8, [None, (3e-6, 3.1e-6)])  # the first kernel did not run side by side
    assert not kept.groups()

    resumed = results.Results(tmp_path / "second.json", tmp_path / "first.json")
    resumed.add(second, searches.OURS, {**raw, "improvements": steps[:1]})
    assert resumed.has(first, searches.OURS)
    assert not resumed.has(first, searches.FAIR)
    assert resumed.groups() == [(MATMUL, 8)]  # all of a group are compared again beside what is new
    assert len(resumed.steps(MATMUL, 8)) == 2
    (row,) = resumed.judged()
    (step,) = row["searches"][searches.OURS]["improvements"]
    assert step == {"elapsed_s": 1.0, "trial": 2, "run_s": 1e-6, "latency_s": 3e-6, "repeat_s": 3.1e-6}
    assert len(json.loads((tmp_path / "second.json").read_text())) == 2


def send_then_hang(send) -> None:
    """Start a process that outlives this one, unless it is killed with it."""
    send(os.getpid())
    send(subprocess.Popen(["sleep", "600"]).pid)
    time.sleep(600)


def send_then_fail(send) -> None:
    send("begun")
    raise ValueError("planted")


def test_a_search_that_does_not_end_keeps_what_it_sent_and_leaves_no_process() -> None:
    pids = list(import_module("limited").messages(send_then_hang, limit_s=3.0))
    assert len(pids) == 2
    while any(is_running(pid) for pid in pids):  # what is killed ends when it has a core; else the time limit
        time.sleep(0.02)


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_search_that_fails_says_why() -> None:
    limited = import_module("limited")
    with pytest.raises(limited.ProcessFailedError, match="ValueError: planted"):
        list(limited.messages(send_then_fail, limit_s=60.0))


@pytest.mark.tvm
@pytest.mark.rehearsal
def test_searches_are_made_kept_resumed_and_compared(tmp_path: Path) -> None:
    """First ours alone, with no time for more than that; then the others go on where it was cut."""
    pytest.importorskip("tvm")
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    ours = rehearse(tmp_path, first, "--search", "costmodel")
    assert [list(row["searches"]) for row in ours] == [["costmodel"]]
    both = rehearse(tmp_path, second, "--resume", first)
    (row,) = both
    assert list(row["searches"]) == ["costmodel", "stock, early model", "stock"]
    assert all(found["measured"] == 8 and found["failed"] < 8 for found in row["searches"].values())
    assert row["searches"]["costmodel"]["seconds"] == ours[0]["searches"]["costmodel"]["seconds"]
    steps = [step for found in row["searches"].values() for step in found["improvements"]]
    assert all(step["latency_s"] > 0 and "trace" not in step for step in steps)


@pytest.mark.tvm
@pytest.mark.rehearsal
def test_stages_are_searched_and_compared(tmp_path: Path) -> None:
    """On one thread, with models that know nothing of it; the stage needs the machine code of a GPU."""
    pytest.importorskip("tvm")
    from costmodel import train

    stages, compared = import_module("stages"), tmp_path / "compared.json"
    for name in ("sm-budgets", "sm-budgets-compiled"):
        train("h100-sm-budgets", "ridge").save(tmp_path / f"{name}.costmodel")
    small = ["--runner", "cpu", "--workload", MATMUL, "--sms", 1, "--population", 16, "--generations", 1]
    limits = ["--time-limit", 300, "--least", 12, "--most", 12]
    files = ["--models", tmp_path, "--out", tmp_path / "found.json", "--json", compared]
    command = ["bash", FOLDER / "stages.sh", *small, *limits, *files]
    done = subprocess.run(
        [*map(str, command)],
        env={**without_tensor_intrinsics(tmp_path), "PYTHON": sys.executable},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(compared.read_text())
    assert list(row["searches"]) == list(stages.SEARCHES)
    searches = row["searches"].values()  # on a busy machine one may have measured nothing when its time is up
    assert all(found["measured"] >= found["failed"] and found["seconds"] <= 12.0 for found in searches)
    steps = [step for found in searches for step in found["improvements"]]
    assert all(step["latency_s"] > 0 and "trace" not in step for step in steps)
    assert f"| {MATMUL} | 1 | " in done.stdout


def rehearse(folder: Path, out: Path, *arguments: object) -> list[dict[str, dict[str, dict[str, object]]]]:
    """Rows that the experiment writes for a small matmul on one thread."""
    compared, picture = folder / "compared.json", folder / "best.png"
    options = ["--runner", "cpu", "--workload", MATMUL, "--sms", 1, "--seed", 1, "--trials", 8]
    small = ["--shipped-trials", 8, "--population", 16, "--generations", 1, "--comparing", 1]
    limits = ["--time-limit", 800, "--seconds", 150, "--shipped-seconds", 150]
    command = [sys.executable, FOLDER / "run.py", *options, *small, *limits, *arguments]
    done = subprocess.run(
        [*map(str, command), "--out", str(out), "--json", str(compared), "--plot", str(picture)],
        env=without_tensor_intrinsics(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert picture.stat().st_size > 0, done.stderr
    assert "A/A: median" in done.stdout, done.stderr
    return json.loads(compared.read_text())
