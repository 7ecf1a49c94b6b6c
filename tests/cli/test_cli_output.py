import os
import subprocess
from pathlib import Path

import pytest
import typer
from command_line import command, in_terminal
from typer.testing import CliRunner

from costmodel.cli._app import app
from costmodel.cli._output import watch_output, what_is_left
from costmodel.files import replacing
from costmodel.records._device_table import read_devices
from costmodel.workloads import catalogue

pytestmark = pytest.mark.white_box


@pytest.mark.parametrize("width", [60, 80, 200])
def test_a_table_is_printed_in_parts_that_fit(width: int) -> None:
    lines = in_terminal(width, "devices", "list")
    shown = "\n".join(lines)
    assert max(map(len, lines)) <= width
    # Every cell once and whole, and the first column on each part.
    rates = ("4,814.3", "7,672.3", "2,382.4")
    assert [shown.count(rate) for rate in rates] == [1] * 3
    parts = {60: 6, 80: 3, 200: 1}[width]
    names = [entry.device.name for entry in read_devices()]
    fitting = [name for name in names if len(name) < 48]  # a longer one is wrapped in a narrow window
    assert [name for name in fitting if shown.count(name) < parts] == []
    assert shown.count(" device ") == parts
    assert shown.count(" devices") == 1


@pytest.mark.parametrize("width", [80, 200])
def test_text_is_wrapped_between_words_and_names_are_whole(width: int) -> None:
    lines = in_terminal(
        width, "workloads", "list", "--network", "decoder_1b-prefill128", "--dtype", "float16"
    )
    assert max(map(len, lines)) <= width
    shown = " ".join("\n".join(lines).split())
    for entry in catalogue("decoder_1b-prefill128", "float16"):
        assert f" {entry.workload.name} " in shown
        for network, count in entry.networks.items():
            assert f" {count} in {network}" in shown


def test_a_terminal_wraps_sentences_between_words() -> None:
    lines = in_terminal(80, "devices", "show", "H100 SXM")
    (entry,) = (entry for entry in read_devices() if "H100 SXM" in entry.names)
    assert f"Source: {entry.source}" in " ".join(" ".join(lines).split())
    assert max(map(len, lines)) <= 80


def test_a_pipe_gets_sentences_in_one_line_and_tables_as_wide_as_asked() -> None:
    def lines(**variables: str) -> list[str]:
        unset = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
        done = subprocess.run(
            command("devices", "show", "H100 SXM"),
            env=unset | variables,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.splitlines()

    (entry,) = (entry for entry in read_devices() if "H100 SXM" in entry.names)
    assert lines()[-1] == lines(COLUMNS="40")[-1] == f"Source: {entry.source}"
    assert max(map(len, lines(COLUMNS="40")[:-1])) <= 40


def test_each_command_fits_its_own_width() -> None:
    """One process may run several, in windows of different widths."""
    narrow, wide, narrow_again = (
        CliRunner().invoke(app, ["devices", "list"], env={"COLUMNS": str(width)}).stdout
        for width in (80, 200, 80)
    )
    assert narrow == narrow_again
    assert max(map(len, narrow.splitlines())) <= 80 < max(map(len, wide.splitlines()))


def test_what_is_half_written_is_not_told_as_written(tmp_path: Path) -> None:
    context = typer.Context(typer.main.get_command(app))
    watch_output(context, tmp_path)
    with replacing(tmp_path / "a.json") as partial:
        partial.write_text("half")
        assert what_is_left(context) == "Nothing was written."
    assert what_is_left(context) == f"Written until then: {tmp_path}."


def test_no_file_is_written_over_what_the_same_command_reads_or_writes(tmp_path: Path) -> None:
    table, link, picture = tmp_path / "runs.csv", tmp_path / "link.csv", tmp_path / "sms.png"
    table.write_text("M,t\n1,2\n")
    link.symlink_to(table)
    for line in (
        ("dataset", "validate", table, "--json", link),
        (
            "dataset",
            "validate",
            link,
            "--columns",
            table,
            "--json",
            f"{tmp_path}/../{tmp_path.name}/runs.csv",
        ),
        ("capacity", "--json", picture, "--plot", picture),
        ("serve-tables", "--model", table, "--device", "H200", "--out", tmp_path / "out", "--json", link),
    ):
        refused = CliRunner().invoke(app, list(map(str, line)))
        assert refused.exit_code == 2
        assert "would be lost, as --" in refused.stderr
    assert table.read_text() == "M,t\n1,2\n"
    assert not picture.exists()
