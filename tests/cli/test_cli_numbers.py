import pytest
from command_line import commands, find
from typer.testing import CliRunner

from costmodel.cli._app import app

pytestmark = pytest.mark.white_box

# A seed; each value alone; nothing new; last of all.
ZERO_MEANS = ("--seed", "--folds", "--time-limit", "--priority", "--older-than")
OUT_OF_RANGE = ("-1", "nan", "inf", "-inf", "1e999", str(10**30))


def numbers() -> list[tuple[str, ...]]:
    """Each option that takes a number, behind its command."""
    found = []
    for path in commands():
        command, _ = find(*path)
        hints = getattr(command.callback, "__annotations__", {})
        for parameter in command.params:
            is_option = parameter.param_type_name == "option"
            if is_option and {"int", "float"} & set(_types(hints.get(parameter.name))):
                found.append((*path, max(parameter.opts, key=len)))
    return found


def _types(hint: object) -> list[str]:
    """Names of the types of an annotation, of its parts too."""
    parts = [part for each in getattr(hint, "__args__", ()) for part in _types(each)]
    return [getattr(hint, "__name__", ""), *parts]


def test_there_are_numbers() -> None:
    assert ("collect", "run", "--time-limit") in numbers()
    assert ("tune", "--trials") in numbers()
    assert len(numbers()) > 15


@pytest.mark.parametrize("value", OUT_OF_RANGE)
@pytest.mark.parametrize("option", numbers(), ids=" ".join)
def test_a_number_out_of_range_is_refused_before_anything_runs(option: tuple[str, ...], value: str) -> None:
    result = CliRunner().invoke(app, [*option, value], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert f"Invalid value for '{option[-1]}'" in result.stderr.replace(" / '-n'", "").replace("'-n' / ", "")


@pytest.mark.parametrize(
    "option",
    [each for each in numbers() if each[-1] not in ZERO_MEANS],
    ids=" ".join,
)
def test_zero_is_refused_where_it_means_nothing(option: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*option, "0"], env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "It must be" in result.stderr


def test_the_message_says_what_it_must_be() -> None:
    result = CliRunner().invoke(app, ["collect", "run", "--time-limit", "-5"], env={"COLUMNS": "200"})
    assert "It must be at least 0 and at most 1,000,000,000, but got -5.0." in result.stderr
