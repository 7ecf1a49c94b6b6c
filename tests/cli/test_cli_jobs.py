"""``costmodel jobs``: from a job file to answers, through a database."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box

JOB = """
name = "block"
trials = 4
slice = 2
rule = "gradient"
sms = [32]

[workloads]
matmul-m16-n1024-k1024 = 3
conv2d-n1-c256-h14-w14-o256-k3-s1 = 1

[settings]
learn_from = "nothing"
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.toml").write_text(JOB)
    return tmp_path


def run(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["jobs", *map(str, arguments)], env={"COLUMNS": "160"})
    assert result.exit_code == code, result.output
    return result.output


def test_a_job_is_submitted_listed_done_and_shown(here: Path) -> None:
    told = run("submit", "job.toml", "--priority", 2, "--submitter", "ann", "--json", "submitted.json")
    assert "Job 1: block, tasks: 2, 8 candidates to measure." in told
    submitted = json.loads((here / "submitted.json").read_text())
    assert submitted["job"]["tasks"][0]["weight"] == 3.0
    assert [word in run("list") for word in ("waiting", "ann", "0/2", "0/8")] == [True] * 4
    done = run("work", "--once", "--runner", "replay", "--json", "done.json")
    assert "No task is left to take; slices done: 4." in done
    assert done.count("Job 1, ") == len(json.loads((here / "done.json").read_text())) == 4
    shown = run("show", 1, "--json", "job.json")
    assert "block: done, gradient on replay" in shown
    tasks = json.loads((here / "job.json").read_text())["tasks"]
    assert [task["answer"]["sentences"][0] in " ".join(shown.split()) for task in tasks] == [True, True]
    assert sum(task["trials"] for task in tasks) == 8
    assert "done" in run("list", "--json", "list.json")
    assert json.loads((here / "list.json").read_text())[0]["submitter"] == "ann"


def test_options_come_before_the_file() -> None:
    told = run("submit", "job.toml", "--sms", "16,32,132", "--trials", 2, "--name", "other")
    assert "Job 1: other, tasks: 6, 12 candidates to measure." in told


def test_a_file_of_another_kind_is_no_workload(here: Path) -> None:
    (here / "job.json").write_text("{}")
    assert "A job file must end in .toml, but got job.json." in run("submit", "job.json", code=2)


def test_a_job_of_workloads_is_cancelled() -> None:
    assert "Job 1: matmul-m64-n64-k64 and 1 more, tasks: 2" in run(
        "submit", "matmul-m64-n64-k64", "matmul-m64-n64-k128"
    )
    assert "Job 1 is cancelled" in run("cancel", 1)
    assert "slices done: 0" in run("work", "--once")
    assert "cancelled" in run("show", 1)


@pytest.mark.tvm
def test_a_worker_with_lanes_says_what_they_need(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tvm")
    pytest.importorskip("cuda.bindings")
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(here))
    run("submit", "matmul-m64-n64-k64", "--runner", "cuda")
    told = " ".join(run("work", "--once", "--runner", "cuda", "--lanes", code=2).split())
    assert "Lanes must have an MPS daemon that limits no client, but there is none" in told


def test_a_device_that_no_table_knows_is_waited_for_and_said(here: Path) -> None:
    asked = ("submit", "matmul-m64-n64-k64", "--runner", "cuda", "--device", "h100")
    told = " ".join(run(*asked, "--device", "hh100").split())
    assert told.endswith("Note: no known GPU is called hh100. Its tasks wait for a worker whose GPU is.")
    assert "Note" not in run(*asked)


def test_a_campaign_is_a_job(here: Path) -> None:
    (here / "campaign.toml").write_text('campaign = "cpu-quick"\nout = "cpu"\n')
    assert "Job 1: cpu-quick, tasks: 1." in run("submit", "campaign.toml")
    assert f"campaign in {here / 'cpu'}" in run("show", 1)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("submit", "job.toml", "job.toml"), "one job file or workloads"),
        (("submit", "nosuch.toml"), "Cannot read nosuch.toml: No such file"),
        (("submit", "matmul"), "Unknown workload"),
        (("show", "0"), "Invalid value for 'ID'"),
        (("cancel", "1000000000000000000000"), "Invalid value for 'ID'"),
        (("list",), "there is no file out/jobs.db"),
        (("show", "3", "--store", "typo.db"), "there is no file typo.db"),
        (
            ("work", "--once", "--engine", "tcp://192.0.2.1:8786"),
            "must begin with tls://, but got tcp://192.0.2.1",
        ),
        (("work", "--once", "--engine", "nowhere"), "An engine's address must be local://"),
        (("list", "--store", "jobs.txt"), "must be a file that ends in .db"),
    ],
)
def test_what_is_wrong_is_one_sentence(arguments: tuple[str, ...], told: str) -> None:
    assert told in " ".join(run(*arguments, code=2).replace("│", " ").split())


def test_who_asks_for_what_is_not_there_makes_nothing(here: Path) -> None:
    before = sorted(here.iterdir())
    for arguments in (("list",), ("show", 1), ("cancel", 1)):
        run(*arguments, "--store", "typo/jobs.db", code=2)
    assert sorted(here.iterdir()) == before
    run("submit", "job.toml")
    assert "there is none with the id 3" in run("show", 3, code=2)


def test_names_steer_no_terminal_and_pass_for_no_row(here: Path) -> None:
    (here / "job.toml").write_text(
        JOB.replace('"block"', r'"\u001B]0;owned\u0007[red]\u202Ea\n1 done :smile:"')
    )
    run("submit", "job.toml", "--submitter", "x://bob:s3cret@host \x1b[2J")
    for shown in (run("list"), run("show", 1), run("work", "--once", "--runner", "replay")):
        assert [character in shown for character in "\x1b\x07\u202e"] == [False] * 3
    assert r"\x1b]0;owned\x07[red]\u202ea\n1 done :smile:" in run("list")
    assert "s3cret" not in run("list")


@pytest.mark.parametrize("name", ["c%41.db", "a?b#c.db", "a b&c=d.sqlite", "{0}.db", "a:b@c.db"])
def test_the_name_of_a_file_stays_as_it_is(here: Path, name: str) -> None:
    run("submit", "job.toml", "--trials", 1, "--store", name)
    run("work", "--once", "--runner", "replay", "--store", name)
    found = {path.name.removesuffix("-journal") for path in here.iterdir()}
    assert found - {"job.toml", "out"} == {name, Path(name).with_suffix(".studies").name}
    assert "block" in run("list", "--store", name)
