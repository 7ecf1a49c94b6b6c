import errno
import os
import signal
import subprocess
import sys
import time
import weakref
from pathlib import Path

import pytest
from command_line import find

from costmodel import __version__
from costmodel.__main__ import run_program
from costmodel.cli import _app, main
from costmodel.records import _device_table

pytestmark = pytest.mark.white_box

COMMANDS = {name: command.help for name, command in find()[0].commands.items()}


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    """Exit code of ``costmodel ARGUMENTS`` in this process."""
    monkeypatch.setattr(sys, "argv", ["costmodel", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def test_version(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, "--version") == 0
    assert capsys.readouterr().out == f"costmodel {__version__}\n"


def test_a_current_folder_that_was_deleted_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    assert run(monkeypatch, "devices", "list") == 2
    assert "The current folder must exist, but was deleted" in capsys.readouterr().err


def test_help_lists_every_command_and_imports_none() -> None:
    code = (
        "import sys; sys.argv = ['costmodel', '--help']; from costmodel.cli import main\n"
        "try: main()\n"
        "finally: print({'pandas', 'pyarrow', 'sklearn', 'tvm', 'xgboost', 'optuna'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("set()\n")
    shown = " ".join(done.stdout.replace("│", " ").split())
    for name, summary in COMMANDS.items():
        assert f"{name} {summary}" in shown


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_says_in_its_own_help_what_the_list_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert run(monkeypatch, name, "--help") == 0
    shown = capsys.readouterr().out
    assert f"costmodel {name}" in shown
    assert COMMANDS[name] in shown


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
    assert run(monkeypatch, "model", "info", "so, but\n[bold]is not[/bold]") == 2
    said = capsys.readouterr().err
    assert said.startswith("Error: ")
    assert "so, but [bold]is not[/bold]" in said
    assert said.count("\n") == 1


def test_a_disk_that_fills_up_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "study.log")

    monkeypatch.setattr(_device_table, "read_devices", fill)
    assert run(monkeypatch, "devices", "list") == 2
    assert capsys.readouterr().err == "Error: Cannot write study.log: No space left on device.\n"


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


@pytest.mark.parametrize("error", [ZeroDivisionError("bug"), FileNotFoundError(errno.ENOENT, "bug")])
def test_a_programming_error_is_not_hidden(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail(_: object) -> None:
        raise error

    monkeypatch.setattr(_device_table, "read_devices", fail)
    monkeypatch.setattr(sys, "argv", ["costmodel", "devices", "list"])
    with pytest.raises(type(error), match="bug"):
        main()


def test_an_interrupt_before_a_command_begins_is_a_sentence(monkeypatch, capsys):
    def interrupted(**_):
        raise KeyboardInterrupt

    monkeypatch.setattr(_app, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        run_program()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted. No command was running.\n"


@pytest.mark.usefixtures("_interruptible")
def test_an_interrupt_that_python_would_ignore_is_delivered_again(monkeypatch, capsys):
    class Held:
        """Ends while a weak reference to it has a callback, which Ctrl-C hits."""

    def command(**_):
        held = Held()
        reference = weakref.ref(held, lambda _: signal.raise_signal(signal.SIGINT))
        del held
        assert reference() is None
        time.sleep(10.0)

    monkeypatch.setattr(_app, "app", command)
    monkeypatch.setattr(sys, "unraisablehook", sys.__unraisablehook__)
    with pytest.raises(SystemExit) as ended:
        run_program()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "Interrupted. No command was running.\n"
