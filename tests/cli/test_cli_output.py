import pytest

from costmodel.cli._output import console, print_table, titled_table, write_json


def test_no_path_writes_nothing() -> None:
    write_json(None, object())


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
