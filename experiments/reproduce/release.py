"""The page that says, for a commit, which published figures came out again and which were not made."""

import os
import platform
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from figures import Compared, Figures, Step
from pages import PageCheck
from steps import ROOT, Done

# Libraries whose version can move a last digit.
_LIBRARIES = ("numpy", "scikit-learn", "xgboost-cpu", "optuna")


@dataclass(frozen=True)
class Made:
    """What was made at a commit.

    Attributes:
        commit: The commit.
        done: The steps that were run at it.
        rows: Their figures beside what is printed.
        earlier: Of steps that were not run at it, the last commit before it at which they were, and what they
            gave beside what is printed now.
    """

    commit: str
    done: Mapping[str, Done]
    rows: Sequence[Compared]
    earlier: Mapping[str, tuple[str, Sequence[Compared]]]


def find_commit(page: Path) -> str:
    """Return the commit that is checked out.

    Args:
        page: What is written on it, and may be there already.

    Raises:
        SystemExit: Something else differs from it: what would be compared is of no commit.
    """
    page = page.resolve()
    but = [f":(exclude){page.relative_to(ROOT)}"] if page.is_relative_to(ROOT) else []
    if changed := _git("status", "--porcelain", "--untracked-files=no", "--", ".", *but):
        sys.exit(f"A release is checked as it was committed, but these files differ: commit them.\n{changed}")
    return _git("rev-parse", "--short", "HEAD")


def ancestors(names: Sequence[str]) -> list[str]:
    """Return those of these names that are commits before the one that is checked out, the latest first."""
    before = _git("log", "--format=%H").splitlines()[1:]
    found = [(at, name) for name in names for at, whole in enumerate(before) if whole.startswith(name)]
    return [name for _, name in sorted(found)]


def write_page(figures: Figures, made: Made, pages: Sequence[PageCheck]) -> str:
    """Return the page in Markdown."""
    done = made.done
    differ = [row for row in made.rows if row.status.startswith(("no", "failed"))]
    numbers = Counter(row.step for row in made.rows for _ in row.reproduced)
    recorded = [step.name for step in figures.steps if step.recorded]
    again = [step for step in figures.steps if step.name in done and not step.recorded]
    missing = [step for step in figures.steps if step.name not in done]
    agree, apart = sum(page.agree for page in pages), sum(len(page.differ) for page in pages)
    parts = [
        _head(made.commit),
        f"**{sum(numbers.values())} numbers were compared, and {len(differ) or 'no'} figures differ.**",
        *(f"- {row.figure}: printed {', '.join(row.readme)}, {row.status}" for row in differ),
        "## Made again from the data",
        "\n".join(
            ["| step | command | numbers | processor time, min |", "| --- | --- | ---: | ---: |"]
            + [_row(step, numbers[step.name], done[step.name]) for step in again]
        ),
        "## Computed again from committed results",
        f"{sum(numbers[name] for name in recorded)} numbers are of runs that took a GPU or hours, which were "
        "not repeated: they were computed from the results that are committed beside each experiment. Of the "
        f"tables on its pages, {agree} rows agree with the results beside them, and {apart} differ.",
        "## Not made",
        "Steps that were not run, and figures that no command here makes:",
        "\n".join(
            [f"- step {s.name}: {_count(figures, s.name)} numbers{_earlier(made, s)}" for s in missing]
            + [
                f"- {each.name}: {', '.join(each.printed)} ({each.reason})"
                for each in figures.figures
                if not each.step
            ]
        ),
    ]
    return "\n\n".join(parts) + "\n"


def _head(commit: str) -> str:
    libraries = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    return (
        f"# Release check\n\nWhat `make release-check` found at commit {commit} on "
        f"{datetime.now(UTC):%Y-%m-%d}, with Python {platform.python_version()}, {libraries}, on "
        f"{len(os.sched_getaffinity(0))} cores. It compares each number that the README "
        "or a page prints with what its command gives, within a tolerance that "
        "[the experiment](../experiments/reproduce/README.md) gives reasons for. "
        "[Rows of the README](figures.md#rows-of-the-readme) says which are compared."
    )


def _row(step: Step, numbers: int, done: Done) -> str:
    command = " ".join(step.command).replace("{out}/", "").replace("{caches}", "CACHES")
    return f"| {step.name} | `{command}` | {numbers} | {done.cpu_s / 60:.1f} |"


def _earlier(made: Made, step: Step) -> str:
    """When a step was last run, which says nothing of this commit."""
    if step.name not in made.earlier:
        return ""
    commit, rows = made.earlier[step.name]
    differ = sum(row.status.startswith("no") for row in rows)
    return f" (last run at {commit}, before this commit; {differ or 'no'} figures differed)"


def _count(figures: Figures, step: str) -> int:
    return sum(len(figure.printed) for figure in figures.figures if figure.step == step)


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()
