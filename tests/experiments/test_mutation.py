"""The sample and the score of experiments/mutation; mutmut itself is run by the experiment alone."""

import argparse
import tomllib
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / "experiments" / "mutation" / "run.py"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(SCRIPT.parent)
        spec = spec_from_file_location("experiment_mutation", SCRIPT)
        assert spec
        assert spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture
def options(script: ModuleType) -> argparse.Namespace:
    return script.parse(["--sample", "5", "--seed", "3"])


def test_a_draw_is_distinct_in_order_and_the_same_again(
    script: ModuleType, options: argparse.Namespace
) -> None:
    names = [f"mutant {number:03}" for number in range(100)]
    drawn = script.draw(names, options)
    assert drawn == sorted(set(drawn))
    assert len(drawn) == 5
    assert script.draw(names, options) == drawn
    assert script.draw(names, script.parse(["--sample", "5", "--seed", "4"])) != drawn
    assert script.draw(names[:4], options) == names[:4]


def test_what_no_test_runs_has_survived_and_timeouts_count_nowhere(script: ModuleType) -> None:
    outcome = {f"a{number}": "killed" for number in range(12)}
    found = script.summary({**outcome, "b": "survived", "c": "timeout", "d": "no tests", "e": "survived"})
    assert (found["tried"], found["killed"], found["survived"], found["timeouts"]) == (16, 12, 3, 1)
    assert found["score"] == 0.8
    # Wilson's interval of 12 of 15 by hand: (12 + z2/2) / (15 + z2) -+ z sqrt(12 * 3 / 15 + z2/4) / (15 + z2)
    assert found["interval"] == [0.548, 0.93]
    assert found["not killed"] == {"b": "survived", "c": "timeout", "d": "no tests", "e": "survived"}


def test_an_outcome_that_is_no_verdict_is_refused(script: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"must be among killed, .* but got not checked of a"):
        script.summary({"a": "not checked", "b": "killed"})


def test_a_copy_is_set_up_for_one_package(
    script: ModuleType, options: argparse.Namespace, tmp_path: Path
) -> None:
    (tmp_path / "records" / "mutants").mkdir(parents=True)
    script.prepare(tmp_path / "records", "records", options)
    copy = tmp_path / "records"
    assert sorted(path.name for path in copy.iterdir()) == sorted(script.COPIED)
    settings = tomllib.loads((copy / "pyproject.toml").read_text())["tool"]["mutmut"]
    assert settings["only_mutate"] == ["costmodel/records/*"]
    tests, *left_out = settings["pytest_add_cli_args_test_selection"]
    assert tests == "tests/records"
    assert (copy / tests).is_dir()
    files = [option.removeprefix("--deselect=").partition("::")[0] for option in left_out]
    assert len(files) == len(options.left_out) > 0
    assert all((copy / file).is_file() for file in files)
