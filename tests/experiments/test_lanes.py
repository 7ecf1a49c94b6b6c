"""The experiment on several jobs on one GPU, run through on this CPU, and its tables."""

import json
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from experiment_folder import found_beside

FOLDER = Path(__file__).parents[2] / "experiments" / "lanes"
JOBS = ["matmul-m32-n32-k32", "softmax-m16-n32"]


@pytest.fixture(autouse=True)
def folder_on_path() -> Iterator[None]:
    """The experiment's modules are found beside each other."""
    pytest.importorskip("tvm")
    with found_beside(FOLDER, ("measure", "report", "crew", "cores")):
        yield


def test_options_are_those_of_the_config() -> None:
    found = import_module("measure").parse(["--out", "out", "--tasks", "3"])
    assert (found.out, found.tasks, found.runner, found.sms, found.lanes) == (Path("out"), 3, "cuda", 32, 4)


def test_winners_are_chosen_by_one_visit_and_judged_by_the_other() -> None:
    """Alone, kernel 0 wins; beside others kernel 2 does, kernel 3 is third, and kernel 1 failed."""
    first = {"a": [1.0, 2.0, 1.5, 1.2], "b": [2.0, 1.0, None, 4.0]}
    again = {"a": [1.1, 2.0, 2.2, 1.0], "b": [2.0, 1.0, 1.0, 4.0]}
    way = {"a": [1.4, None, 1.2, 1.3], "b": [2.0, 1.0, 1.0, 4.0]}
    found = import_module("report").quality(way, first, again)
    assert (found["tasks"], found["kernels"]) == (2, 6)
    assert found["shift"]["median"] == pytest.approx(0.25 / 6)  # of .4, .2, .083 and three zeros
    assert found["shift"]["worst"] == pytest.approx(0.4)
    assert found["score"] == pytest.approx({"median": 0.75, "worst": 0.5})  # 1.1 / 2.2, and 1
    assert found["finalists"] == {"median": 1.0, "worst": 1.0}
    assert found["second_best"] == pytest.approx({"median": 0.6, "least": 0.2})


def test_what_was_recorded_gives_the_figures_that_are_committed() -> None:
    report = import_module("report")
    lines = map(json.loads, (FOLDER / "measured.jsonl").read_text().splitlines())
    found = report.report({line["name"]: line.get("found") for line in lines})
    assert json.loads((FOLDER / "result.json").read_text()) == json.loads(json.dumps(found))
    assert "| at once, on lanes | 4 | 95 |" in report.tables(found)


def test_a_gpu_that_is_not_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("needs a machine without a GPU")
    monkeypatch.setattr(sys, "argv", ["measure.py", "--out", str(tmp_path)])
    with pytest.raises(SystemExit, match="must have an NVIDIA GPU, but there is none here"):
        import_module("measure").main()


@pytest.mark.rehearsal
def test_all_of_it_runs_on_this_cpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measure = import_module("measure")
    options = (
        "--runner cpu --sms 1 --lanes 2 --trials 4 --builders 1 --builders-at-once 1 --tasks 2 --kernels 2"
    )
    options += " --most-after 300 --most-at-once 300 --time-limit 900"
    jobs = [word for name in JOBS for word in ("--workload", name)]
    monkeypatch.setattr(sys, "argv", ["measure.py", "--out", str(tmp_path), *options.split(), *jobs])
    measure.main()
    lines = [json.loads(line) for line in (tmp_path / "lanes.jsonl").read_text().splitlines()]
    assert [line for line in lines if "error" in line] == []
    by_name = {line["name"]: line["found"] for line in lines}
    assert [by_name[name]["valid"] for name in (measure.AFTER, measure.TURNS)] == [8, 8]
    assert len(by_name[f"winners {measure.TURNS}"]["latency_s"]) == 2
    assert f"| {measure.AGAIN} | 2 |" in capsys.readouterr().out
