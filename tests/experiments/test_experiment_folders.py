"""Every experiment has what a reader looks for, and its options are those of its config."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

from costmodel.evaluation._config import EvaluationConfig

pytestmark = pytest.mark.white_box

EXPERIMENTS = Path(__file__).parents[2] / "experiments"
FOLDERS = sorted(path.parent for path in EXPERIMENTS.glob("*/run.py"))
SECTIONS = ("Question", "Expectation", "Config", "Run", "Result", "Verdict")
# They load TVM, or helpers of other tests, when they are imported.
STARTED = ("network_on_part", "kill_the_collector", "kill_the_workers")
IMPORTED = [folder for folder in FOLDERS if folder.name not in STARTED]

by_name = pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)


@pytest.fixture
def script(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The script of an experiment as a module; its neighbours, whose names others have too, are forgotten."""
    monkeypatch.syspath_prepend(folder)
    forget(folder)
    spec = spec_from_file_location(f"experiment_{folder.name}", folder / "run.py")
    assert spec
    assert spec.loader
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    yield module
    forget(folder)


def forget(folder: Path) -> None:
    for file in folder.glob("*.py"):
        sys.modules.pop(file.stem, None)


def needed(folder: Path) -> list[str]:
    """Arguments that have no default."""
    names = {
        "all_sources": ["--out", "o"],
        "few_shot": ["data"],
        "foreign_spaces": ["data"],
        "kernel_tuner": ["data", "--out", "o"],
        "placement": ["data"],
        "source_choice": ["data"],
        "live_search": ["--json", "r", "--out", "o", "--model", "m"],
        "transfer": ["--out", "o"],
        "search_on_replay": ["--out", "o"],
        "stopping": ["--out", "o"],
        "tile_synchronization": ["data"],
        "unknown_functions": ["data"],
        "triton_autotune": ["--out", "o"],
    }
    written = ["co_run", "pipeline_throughput", "stock_comparison"]
    return names.get(folder.name, ["--json", "r"] if folder.name in written else [])


@pytest.mark.parametrize("name", STARTED)
def test_what_is_not_imported_starts(name: str) -> None:
    path = EXPERIMENTS / name / "run.py"
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@by_name
def test_a_folder_has_its_parts(folder: Path) -> None:
    readme = (folder / "README.md").read_text()
    assert readme.startswith("# ")
    assert [word for word in SECTIONS if f"**{word}" not in readme] == []
    assert os.access(folder / "run.sh", os.X_OK)
    shell = (folder / "run.sh").read_text()
    assert shell.startswith("#!/usr/bin/env bash\n")
    assert "set -euo pipefail" in shell
    assert '"$@"' in shell
    assert f"({folder.name}/README.md)" in (EXPERIMENTS / "README.md").read_text()


@pytest.mark.parametrize("folder", IMPORTED, ids=lambda folder: folder.name)
def test_options_are_those_of_the_config_and_others_are_refused(
    folder: Path, script: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert script.parse(needed(folder)).config == folder / "config.toml"
    changed = tmp_path / "changed.toml"
    changed.write_text("no_such_option = 1\n" + (folder / "config.toml").read_text())
    with pytest.raises(SystemExit) as ended:
        script.parse([*needed(folder), "--config", str(changed)])
    assert ended.value.code == 2
    assert "changed.toml: keys must be among" in capsys.readouterr().err


@pytest.mark.parametrize("folder", [EXPERIMENTS / "no_harm"], ids=lambda folder: folder.name)
def test_the_command_line_wins(script: ModuleType, folder: Path) -> None:
    found = script.parse(["--first", "0", "--sms", "8", "16"])
    assert (found.first, found.sms, found.step) == (0, [8, 16], 3)


@pytest.mark.parametrize("folder", [EXPERIMENTS / "search_on_replay"], ids=lambda folder: folder.name)
def test_repeated_options_and_flags_win_too(script: ModuleType, folder: Path, tmp_path: Path) -> None:
    found = script.parse(["--out", "o", "--learner", "ridge", "--until", "0", "--no-gp"])
    assert (found.learner, found.until, found.no_gp, found.no_tvm) == (["ridge"], 0.0, True, False)
    changed = tmp_path / "changed.toml"
    changed.write_text("no_tvm = true\nuntil = 1\n")
    found = script.parse(["--out", "o", "--config", str(changed)])
    assert (found.no_tvm, found.until, found.learner) == (True, 1.0, None)


@pytest.mark.parametrize("folder", [EXPERIMENTS / "co_run"], ids=lambda folder: folder.name)
def test_wrong_values_are_refused(
    script: ModuleType, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = tmp_path / "config.toml"
    for line, message in {
        "kernels = 1.5": "kernels must be int, but got 1.5",
        "kernels = true": "kernels must be int, but got True",
        "sms = 8": "sms must be a list, but got 8",
        "sms = ['8']": "sms must be int, but got '8'",
        "runner = 'tpu'": "runner must be one of cuda, cpu, but got 'tpu'",
        "draw = 1": "draw must be true or false, but got 1",
        "draw": "config.toml: Expected '='",
    }.items():
        config.write_text(f"{line}\n")
        with pytest.raises(SystemExit):
            script.parse(["--json", "r", "--config", str(config)])
        assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "path",
    [
        *sorted(set(EXPERIMENTS.glob("transfer/*.toml")) - {EXPERIMENTS / "transfer" / "config.toml"}),
        EXPERIMENTS / "few_shot" / "shots.toml",
    ],
    ids=lambda path: path.stem,
)
def test_evaluations_of_experiments_are_valid(path: Path) -> None:
    assert EvaluationConfig.load(path).tasks


@pytest.mark.parametrize(
    "path", sorted(EXPERIMENTS.glob("*/*.json")), ids=lambda path: f"{path.parent.name}-{path.stem}"
)
def test_results_hold_no_paths_of_the_machine_that_made_them(path: Path) -> None:
    assert re.findall(r'"(?:/|[A-Z]:\\\\)[^"]*"', path.read_text()) == []
