"""The list of figures that README.md and docs/ print, and how a reproduced value is compared with one."""

import json
import re
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_name("figures.toml")
MARKED = re.compile("«([^»]*)»")


class NotebookFigure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A picture that a step draws.

    Attributes:
        drawn: Where; `{out}` is the folder of results.
        committed: The file that README shows and that must look the same; none where fewer data are drawn.
    """

    drawn: str
    committed: str = ""


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A command that reproduces some figures.

    Attributes:
        name: What ``--only`` says.
        command: Its words; `{out}` is the folder of results, `{caches}` that of third parties' files. It
            writes `{out}/NAME.json`.
        minutes: Wall time on one quiet core.
        note: What is sampled or recorded, and why; empty where the figures are made as README's were.
        recorded: Whether its values come from results that were committed, as they need a GPU or hours.
        after: Step that must be done before.
        pictures: What it draws.
    """

    name: str
    command: tuple[str, ...]
    minutes: float
    note: str = ""
    recorded: bool = False
    after: str = ""
    pictures: tuple[NotebookFigure, ...] = ()

    @property
    def needs_caches(self) -> bool:
        """Whether it reads files that do not come with this repository."""
        return any("/caches" in word or "{caches}" in word for word in self.command)


class Figure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Numbers of one line of the README.

    Attributes:
        name: What they are.
        quote: The line or a part of it as README prints it, whatever its spaces, each number in « ».
        step: The step that makes them; empty where nothing here can, and ``reason`` says why.
        values: Where each number is in the step's JSON, see ``value_at``.
        scale: What a value is multiplied with to have the unit printed; a printed % is a hundredth.
        tolerance: How far a value may be from the printed one, beside the rounding of the last digit: one for
            all numbers, or one for each.
        reason: Why there is a tolerance, or no step.
    """

    name: str
    quote: str
    step: str = ""
    values: tuple[str, ...] = ()
    scale: float = 1.0
    tolerance: float | tuple[float, ...] = 0.0
    reason: str = ""

    @property
    def printed(self) -> tuple[str, ...]:
        """The numbers as README prints them."""
        return tuple(MARKED.findall(self.quote))

    @property
    def tolerances(self) -> tuple[float, ...]:
        """The tolerance of each number."""
        each = self.tolerance
        return each if isinstance(each, tuple) else (each,) * len(self.printed)

    @property
    def text(self) -> str:
        """The quote without marks, with single spaces."""
        return " ".join(MARKED.sub(r"\1", self.quote).split())


class Figures(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All steps and figures, in the order in which README has them."""

    steps: tuple[Step, ...]
    figures: tuple[Figure, ...]


class Compared(msgspec.Struct, frozen=True):
    """A figure beside what its step gave.

    Attributes:
        figure: Its name.
        step: Its step.
        readme: Numbers as printed.
        reproduced: Numbers found, in the unit printed; empty where there are none.
        status: Begins with ``yes`` or ``no`` where they were compared; says else why they were not.
        note: Reason of the tolerance.
    """

    figure: str
    step: str
    readme: tuple[str, ...]
    reproduced: tuple[float, ...]
    status: str
    note: str


def printed() -> str:
    """README.md and the pages of docs/, whatever their spaces."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return " ".join(" ".join(page.read_text() for page in pages).split())


def load() -> Figures:
    """The list."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), Figures)


def number(text: str) -> tuple[float, float]:
    """A printed number, and half a unit of its last digit; a percentage is a share."""
    digits = re.search(r"-?[\d,]*\.?\d+", text)
    if not digits:
        raise ValueError(f"A printed number must have digits, but got {text!r}.")
    plain = digits[0].replace(",", "")
    unit = 0.01 if "%" in text else 1.0
    return unit * float(plain), unit * 0.5 * 10.0 ** -len(plain.partition(".")[2])


def value_at(document: Any, path: str) -> float:
    """A number in a JSON document, written as text where the file has it so.

    Args:
        document: What the file holds.
        path: Keys from the top with slashes between them. In a list a key is a place, or `name=value` of the
            one entry that has it, as in `summary/learner=xgboost/score_at_1/mean`; several with `&`, and
            `max=name` last for the largest `name` of all that have the others.

    Raises:
        KeyError: Nothing is there.
    """
    found = document
    for key in path.split("/"):
        found = _entry(found, key) if isinstance(found, list) else found[key]
    return number(found)[0] if isinstance(found, str) else float(found)


def _entry(entries: Sequence[Any], key: str) -> Any:
    if "=" not in key:
        return entries[int(key)]
    wanted = dict(pair.split("=", 1) for pair in key.split("&"))
    largest = wanted.pop("max", None)
    having = [
        entry for entry in entries if all(str(entry.get(name)) == value for name, value in wanted.items())
    ]
    if not having:
        raise KeyError(key)
    if largest is None:
        return having[0]
    return max(entry[largest] for entry in having if entry[largest] is not None)


def compared(figure: Figure, document: Any) -> Compared:
    """The figure beside what a step's document says."""
    found, within = [], []
    for printed, path, tolerance in zip(figure.printed, figure.values, figure.tolerances, strict=True):
        value, rounding = number(printed)
        found.append(value_at(document, path) * figure.scale)
        within.append(abs(found[-1] - value) <= rounding * 1.0001 + tolerance)
    status = "yes" if all(within) else "no"
    return Compared(figure.name, figure.step, figure.printed, tuple(found), status, figure.reason)


def uncompared(figure: Figure, status: str) -> Compared:
    """The figure alone, and why."""
    return Compared(figure.name, figure.step, figure.printed, (), status, figure.reason)


def table(rows: Sequence[Compared]) -> str:
    """Markdown."""
    lines = ["| figure | README | reproduced | within tolerance | step |", "| --- | --- | --- | --- | --- |"]
    for row in rows:
        found = [_like(value, printed) for value, printed in zip(row.reproduced, row.readme, strict=False)]
        cells = (row.figure, ", ".join(row.readme), ", ".join(found), row.status, row.step)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _like(value: float, printed: str) -> str:
    """A value with one digit more than the printed one has."""
    value, printed, end = (100 * value, printed, " %") if "%" in printed else (value, printed, "")
    digits = re.search(r"-?[\d,]*\.?\d+", printed)
    assert digits
    return f"{value:,.{len(digits[0].partition('.')[2]) + 1}f}{end}"


def read(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))
