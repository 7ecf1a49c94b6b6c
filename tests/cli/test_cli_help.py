import re

import pytest
from command_line import commands, find
from typer.testing import CliRunner

from costmodel.cli import app


def words(text: str) -> set[str]:
    """Words without the marks of Markdown and of boxes."""
    return set(re.sub("[`│]", "", text).split())


@pytest.mark.parametrize("width", [80, 200])
@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_fits_the_terminal_and_cuts_no_word(path: tuple[str, ...], width: int) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": str(width)})
    assert result.exit_code == 0
    assert [line for line in result.stdout.splitlines() if len(line) > width] == []
    assert "…" not in result.stdout
    shown = words(result.stdout)
    for parameter in find(*path)[0].params:
        options = {name for name in parameter.opts if name.startswith("-")}
        assert options | words(parameter.help or "") | words(parameter.metavar or "") <= shown
