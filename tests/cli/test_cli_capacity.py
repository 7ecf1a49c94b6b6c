import json
from pathlib import Path

import pytest

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box

pytest.importorskip("simpy")


def run(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        app(["capacity", *arguments])
    if ended.value.code:
        raise ValueError(ended.value.code)


def test_builders_and_gpus_are_swept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "found.json", tmp_path / "found.png"
    run(
        "cpu",
        "--builders",
        "1:6",
        "--gpus",
        "1,2",
        "--trials",
        "8",
        "--json",
        str(file),
        "--plot",
        str(picture),
    )
    found = json.loads(file.read_text())["found"]
    assert [(one["gpus"], one["builders"]) for one in found] == [(g, b) for g in (1, 2) for b in (1, 2, 4, 6)]
    assert all(one["kernels"] == 32 for one in found)
    shown = capsys.readouterr().out
    assert "Simulated, not run: 4 tunes, 8 kernels each." in shown
    assert f"{found[-1]['kernels_per_hour']:,.0f}" in shown
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_one_after_the_other_takes_longer(tmp_path: Path) -> None:
    seconds = []
    for options in ([], ["--at-once", "1"]):
        run("cpu", "--builders", "4", "--trials", "8", "--json", str(tmp_path / "found.json"), *options)
        seconds += [one["seconds"] for one in json.loads((tmp_path / "found.json").read_text())["found"]]
    assert seconds[1] > seconds[0]


def test_a_campaign_is_one_job(tmp_path: Path) -> None:
    options = ("--campaign", "--jobs", "3", "--trials", "5", "--builders", "2")
    run("cpu", *options, "--json", str(tmp_path / "found.json"))
    (one,) = json.loads((tmp_path / "found.json").read_text())["found"]
    assert one["kernels"] == 15


@pytest.mark.parametrize("builders", ["0", "a", "1:", "1,,2", "1:2:3", "1000000", "5:1", "1,8,1", "9" * 5000])
def test_other_numbers_are_refused(builders: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="2"):
        run("cpu", "--builders", builders)
    assert "whole numbers from 1 to 100,000" in " ".join(capsys.readouterr().err.split())
