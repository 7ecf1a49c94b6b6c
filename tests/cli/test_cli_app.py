import os
import subprocess
import sys

import pytest

from costmodel import __version__
from costmodel.cli import _app, main
from costmodel.cli._app import COMMANDS
from costmodel.cli._output import resumable
from costmodel.errors import CostModelError


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of ``costmodel ARGUMENTS`` in this process."""
    monkeypatch.setattr(sys, "argv", ["costmodel", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def fake_command(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    """Puts a command in the place of ``train`` that ends with this error."""

    def command() -> None:
        raise error

    monkeypatch.setitem(_app.COMMANDS, "train", (f"{__name__}:command", "Fake."))
    monkeypatch.setattr(sys.modules[__name__], "command", command, raising=False)


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"costmodel {__version__}\n"


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; sys.argv = ['costmodel', '--help']; from costmodel.cli import main\n"
        "try: main()\n"
        "finally: print({'pandas', 'pyarrow', 'sklearn', 'tvm', 'xgboost', 'optuna'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    shown = " ".join(done.stdout.replace("│", " ").split())
    for name, (_, summary) in COMMANDS.items():
        assert f"{name} {summary}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_in_its_own_help_what_the_list_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(monkeypatch, name, "--help") == 0
    shown = capsys.readouterr().out
    assert f"costmodel {name}" in shown
    assert COMMANDS[name][1] in shown


@pytest.mark.parametrize(
    "arguments", [["nonsense"], ["--nonsense"], ["dataset", "nonsense"], ["dataset", "build"]]
)
def test_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_an_error_for_the_user_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_command(monkeypatch, CostModelError("It must be\nso, but [bold]is not[/bold]."))
    assert run(monkeypatch, "train") == 2
    assert capsys.readouterr().err == "Error: It must be so, but [bold]is not[/bold].\n"


def test_interrupted(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    fake_command(monkeypatch, KeyboardInterrupt())
    assert run(monkeypatch, "train") == 130
    assert capsys.readouterr().err == "Interrupted.\n"


def test_what_goes_on_says_so_when_it_is_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt) as interrupt, resumable():
        raise KeyboardInterrupt
    fake_command(monkeypatch, interrupt.value)
    assert run(monkeypatch, "train") == 130
    said = "Interrupted. Run the same command again: it goes on where it stopped.\n"
    assert capsys.readouterr().err == said


def test_the_package_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "costmodel", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"costmodel {__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(["tuen"], "'tune'"), (["dataset", "biuld"], "'build'"), (["evaluate", "--learnr"], "--learner")],
)
def test_what_was_meant_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], meant: str
) -> None:
    assert run(monkeypatch, *arguments) == 2
    assert meant in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("costmodel tu", {"tune"}),
        ("costmodel dataset b", {"build"}),
        ("costmodel evaluate --learner kernel-r", {"kernel-ridge"}),
        ("costmodel evaluate --split whole", {"whole-device-only"}),
        ("costmodel evaluate --see", {"--seed", "--seeds"}),
    ],
)
def test_a_shell_completes(line: str, offered: set[str]) -> None:
    environment = {
        "_COSTMODEL_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    done = subprocess.run(
        [sys.executable, "-m", "costmodel"],
        env=os.environ | environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert set(done.stdout.split()) == offered


def test_a_programming_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    fake_command(monkeypatch, ZeroDivisionError("bug"))
    monkeypatch.setattr(sys, "argv", ["costmodel", "train"])
    with pytest.raises(ZeroDivisionError, match="bug"):
        main()
