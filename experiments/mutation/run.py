"""Do the tests notice when the code is changed? Mutants of mutmut, drawn at random. See README.md."""

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import chdir
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

sys.path.append(str(Path(__file__).parents[1]))
from options import parse_options

ROOT = Path(__file__).parents[2]
WORK = ROOT / "out" / "mutation"
# What mutants and their tests need; each package has a copy of its own, with its own settings of mutmut.
COPIED = ("costmodel", "tests", "datasets", "configs", "pyproject.toml")
SETTINGS = """
[tool.mutmut]
source_paths = ["costmodel"]
only_mutate = ["costmodel/{package}/*"]
also_copy = ["datasets", "configs"]
pytest_add_cli_args = ["-p", "no:xdist", "-p", "no:cacheprovider"]
pytest_add_cli_args_test_selection = {tests}
timeout_constant = 30.0  # seconds: collecting the tests is not in the time that they take
timeout_multiplier = {timeout_factor}
use_git_change_detection = false
"""
# mutmut warns when it is run as a module.
MUTMUT = (sys.executable, "-c", "from mutmut.__main__ import cli; cli()")
# In words of mutmut; a segfault is any end by a signal.
SURVIVED, ENDED = ("survived", "no tests"), ("timeout", "segfault")
VERDICTS = ("killed", *SURVIVED, *ENDED)


def main() -> None:
    options = parse()
    results = {package: measure(package, options) for package in options.package}
    for package, found in results.items():
        print(line(package, found))
    if options.json:
        report = {"seed": options.seed, "packages": results}
        options.json.write_text(json.dumps(report, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--package", nargs="+", help="packages to mutate, each tried by its own tests")
    parser.add_argument("--sample", type=int, help="mutants to draw of each package, at most")
    parser.add_argument("--seed", type=int, help="of the draw")
    parser.add_argument("--timeout-factor", type=float, help="how much longer than usual tests may take")
    parser.add_argument("--left-out", nargs="+", help="tests that are not run, or files of them")
    parser.add_argument("--json", type=Path, help="where to write the outcomes")
    return parse_options(parser, __file__, argv)


def measure(package: str, options: argparse.Namespace) -> dict[str, Any]:
    """Try a sample of a package's mutants, one at a time."""
    work = WORK / package
    prepare(work, package, options)
    mutants = mutants_of(work, package)
    drawn = draw(mutants, options)
    subprocess.run([*MUTMUT, "run", "--max-children", "1", *drawn], cwd=work, check=True)
    return {"mutants": len(mutants), **summary(outcomes(work, drawn))}


def prepare(work: Path, package: str, options: argparse.Namespace) -> None:
    """Copy the project to a folder where mutmut is set up for one package; what was there is deleted."""
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, work / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, work / name)
    tests = json.dumps([f"tests/{package}", *(f"--deselect={name}" for name in options.left_out)])
    settings = SETTINGS.format(package=package, tests=tests, timeout_factor=options.timeout_factor)
    with (work / "pyproject.toml").open("a", encoding="utf-8") as project:
        project.write(settings)


def mutants_of(work: Path, package: str) -> list[str]:
    """Names of all mutants of a package, in the order of the code."""
    from mutmut.mutation.file_mutation import mutate_file_contents
    from mutmut.utils.format_utils import get_mutant_name

    names = []
    with chdir(work):
        for path in sorted(Path("costmodel", package).rglob("*.py")):
            mutated = mutate_file_contents(str(path), path.read_text(encoding="utf-8"))
            names += [get_mutant_name(path, name) for name in mutated.mutant_names]
    return names


def draw(mutants: Sequence[str], options: argparse.Namespace) -> list[str]:
    """A sample without replacement, in the order of the code; all if there are fewer."""
    count = min(options.sample, len(mutants))
    chosen = np.random.default_rng(options.seed).choice(len(mutants), count, replace=False)
    return [mutants[index] for index in sorted(chosen)]


def outcomes(work: Path, names: Iterable[str]) -> dict[str, str]:
    """What became of each mutant when it was tried last, in words of mutmut."""
    from mutmut.stats import status_by_exit_code

    codes: dict[str, int | None] = {}
    for meta in (work / "mutants").rglob("*.py.meta"):
        codes |= json.loads(meta.read_text(encoding="utf-8"))["exit_code_by_key"]
    return {name: status_by_exit_code[codes[name]] for name in names}


def summary(outcome: Mapping[str, str]) -> dict[str, Any]:
    """Counts, the score with its 95 % interval (Wilson's), and all mutants that were not killed.

    The score is killed / (killed + survived). What no test runs has survived; what took too long counts in
    neither.

    Raises:
        ValueError: A mutant was not tried to its end.
    """
    for name, status in outcome.items():
        if status not in VERDICTS:
            raise ValueError(f"outcomes must be among {', '.join(VERDICTS)}, but got {status} of {name}")
    survived = sum(status in SURVIVED for status in outcome.values())
    ended = sum(status in ENDED for status in outcome.values())
    killed = len(outcome) - survived - ended
    found = binomtest(killed, killed + survived)
    interval = found.proportion_ci(method="wilson")
    return {
        "tried": len(outcome),
        "killed": killed,
        "survived": survived,
        "timeouts": ended,
        "score": round(found.statistic, 3),
        "interval": [round(interval.low, 3), round(interval.high, 3)],
        "not killed": {name: status for name, status in outcome.items() if status != "killed"},
    }


def line(package: str, found: Mapping[str, Any]) -> str:
    low, high = found["interval"]
    return (
        f"{package}: {found['killed']} of {found['tried']} mutants killed, {found['survived']} survived,"
        f" {found['timeouts']} timeouts; score {found['score']:.0%} ({low:.0%} to {high:.0%}),"
        f" drawn from {found['mutants']}"
    )


if __name__ == "__main__":
    main()
