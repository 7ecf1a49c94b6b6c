import pytest

from costmodel.cli._output import ProgressLog, console, print_table, progress, titled_table, write_json


def test_no_path_writes_nothing() -> None:
    write_json(None, object())


def test_progress_is_not_on_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    with progress() as shown:
        shown.advance(shown.add_task("working", total=1))
    assert capsys.readouterr().out == ""


def test_progress_goes_to_a_log_at_the_rate_of_late(capsys, monkeypatch) -> None:
    now = iter([0.0, *[0.0] * 100, 61.0, 61.0, *[62.0] * 5, 121.0, 121.0])
    monkeypatch.setattr("costmodel.cli._output.time.monotonic", lambda: next(now))
    log = ProgressLog("measured", 1000)
    for _ in range(107):
        log.advance()
    first, second = capsys.readouterr().err.splitlines()
    assert first == "measured 101 of about 1,000, 1.7/s, 9 min left"
    assert second == "measured 107 of about 1,000, 0.1/s, 2 h 29 min left"


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_table_is_printed_in_parts_that_fit(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch
) -> None:
    monkeypatch.setattr(console, "width", width)
    table = titled_table("Wide")
    for name in ("learner", *(f"column {i}" for i in range(9))):
        table.add_column(name, no_wrap=True)
    table.add_row("kernel-ridge", *(f"cell {i}" for i in range(9)))
    print_table(table)
    out = capsys.readouterr().out
    assert all(len(line) <= width for line in out.splitlines())
    # Every cell once, and the first column on each part.
    assert [out.count(f"cell {i}") for i in range(9)] == [1] * 9
    assert out.count("kernel-ridge") == out.count("learner") == {40: 5, 80: 2, 200: 1}[width]
    assert out.count("Wide") == 1
