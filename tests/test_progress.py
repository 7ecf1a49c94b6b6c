import sys

import pytest

from costmodel.report import _progress as progress_module
from costmodel.report._progress import Progress, duration, track

pytestmark = pytest.mark.white_box


def test_progress_is_not_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with Progress("working", total=1) as progress:
        progress.advance("a")
    assert capsys.readouterr().out == ""


def test_a_log_gets_a_line_now_and_then_at_the_rate_of_late(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, *[1.0] * 100, 31.0, 31.0, *[40.0] * 5, 61.0, 61.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(now))
    with Progress("measuring", total=1000) as progress:
        for _ in range(107):
            progress.advance("matmul")
    first, second = capsys.readouterr().err.splitlines()
    assert first == "measuring: 101 of about 1,000, 3.3/s, 5 min left"
    assert second == "measuring: 107 of about 1,000, 5.0 s each, 1 h 14 min left"


def test_a_log_tells_what_keeps_long_work_waiting(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = iter([0.0, 31.0, 31.0, 40.0, 62.0, 62.0])
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: next(now))
    with Progress("measuring", total=16) as progress:
        progress.advance()
        progress.show("paused")
        progress.show("paused")
    assert capsys.readouterr().err.splitlines()[1:] == ["measuring paused: 1 of about 16"]


def test_a_terminal_gets_a_bar(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with Progress("measuring", total=2) as progress:
        progress.advance("[matmul]")
    captured = capsys.readouterr()
    assert "measuring [matmul]" in captured.err
    assert captured.out == ""


def test_a_loop_gives_its_items(capsys: pytest.CaptureFixture[str]) -> None:
    assert list(track(["a", "b"], "reading", total=2)) == ["a", "b"]
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("seconds", "said"), [(59, "59 s"), (61, "1 min"), (3599, "1 h 00 min"), (3900, "1 h 05 min")]
)
def test_durations(seconds: float, said: str) -> None:
    assert duration(seconds) == said
