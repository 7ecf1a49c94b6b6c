import re

import pytest
from command_line import commands, find
from typer.testing import CliRunner
from vocabulary import bare_words

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box


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


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_help_is_in_sentences_and_in_the_words_of_the_vocabulary(path: tuple[str, ...]) -> None:
    command, _ = find(*path)
    for text in (command.help, *(parameter.help for parameter in command.params)):
        assert not bare_words(text or "")
        assert (text or ".").split("\n\n")[0].rstrip().endswith("."), text


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_values_have_names_that_say_what_they_are(path: tuple[str, ...]) -> None:
    for parameter in find(*path)[0].params:
        shown = parameter.display_type_rich(None) if parameter.metavar is None else parameter.metavar
        assert not re.search(r"<(str|path|Path|int|float|list)\b", shown or ""), f"{path}: {parameter.name}"


def test_a_bare_word_is_found() -> None:
    assert bare_words("At each of 8 budgets.") == ["At each of 8 budgets."]
    assert not bare_words("On every SM budget, `--budget`, sm-budgets: the budget gap.")


@pytest.mark.parametrize("path", commands(), ids=" ".join)
def test_a_default_in_words_is_a_sentence_and_one_that_can_be_typed_is_in_brackets(
    path: tuple[str, ...],
) -> None:
    shown = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"}).stdout
    assert "[default: (" not in shown
    assert "<=" not in shown


def test_an_id_out_of_range_is_refused() -> None:
    result = CliRunner().invoke(app, ["jobs", "show", "0"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "It must be a whole number from 1 to 1,000,000,000, but got 0." in result.stderr
