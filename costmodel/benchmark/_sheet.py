"""The score sheet: a line for each track, question, score and entry, as JSON and as a table."""

from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from costmodel.benchmark._scores import SCORES
from costmodel.benchmark._tracks import TRACKS
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import read_json
from costmodel.report._page import TextTable

DIGITS = 4
VERSION = 1


class ScoreLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A score of an entry.

    Attributes:
        track: Name of the track.
        question: Name of the question.
        score: Name of the score, see ``SCORES``.
        entry: Name of the entry.
        made_by: Whose it is, see ``BenchEntry``.
        value: The mean over tasks and seeds.
        low: Lower end of the 95 % interval, by a bootstrap over workloads.
        high: Upper end.
        seeds: The score of each seed; empty if there is one.
        versus: By how much it is above the baseline on the same tasks; None for the baseline itself.
        versus_low: Lower end of the interval of that, by the same draws.
        versus_high: Upper end.
    """

    track: str
    question: str
    score: str
    entry: str
    made_by: str
    value: float | None
    low: float | None
    high: float | None
    seeds: tuple[float | None, ...] = ()
    versus: float | None = None
    versus_low: float | None = None
    versus_high: float | None = None


class ScoreSheet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a run of the benchmark found.

    Attributes:
        salt: Salt of the split.
        data: SHA-256 of each dataset by name.
        questions: SHA-256 of what each question tells and asks, by name.
        entries: What each entry does, by name.
        lines: The scores, by track, question and score, the best first.
        version: Version of this form.
    """

    salt: str
    data: dict[str, str]
    questions: dict[str, str]
    entries: dict[str, str]
    lines: tuple[ScoreLine, ...]
    version: int = VERSION

    def to_json(self) -> bytes:
        """Return the sheet as JSON; the same sheet gives the same bytes."""
        return msgspec.json.format(msgspec.json.encode(self, order="sorted"), indent=1) + b"\n"

    def write(self, path: Path) -> None:
        """Write the sheet to a file.

        Raises:
            CostModelError: It cannot be written.
        """
        write_whole(path, self.to_json())

    @classmethod
    def read(cls, path: Path) -> Self:
        """Read a sheet from a file.

        Raises:
            CostModelError: It is none, or of another version.
        """
        sheet: Self = read_json(
            path, cls, "a score sheet", remedy="Make it with `costmodel bench run --json`."
        )
        if sheet.version != VERSION:
            raise CostModelError(
                f"{path} must be a score sheet of version {VERSION}, but is of version {sheet.version}. Make "
                "it again with `costmodel bench run --json`."
            )
        return sheet

    def tables(self) -> Iterator[TextTable]:
        """Yield a table for each track and question: a row an entry, the best by the first score first."""
        for track, rule in TRACKS.items():
            for question in rule.questions:
                lines = [each for each in self.lines if (each.track, each.question) == (track, question)]
                if lines:
                    yield _table(f"{track}: {question}", lines)

    def to_markdown(self) -> str:
        """Return the tables with what they ask, in Markdown; the same sheet gives the same text."""
        parts = []
        for track, rule in TRACKS.items():
            tables = [table for table in self.tables() if table.title.startswith(f"{track}: ")]
            if tables:
                parts.append(f"## {track}\n\n{rule.asks}")
                parts += [f"### {table.title}\n\n{table.to_markdown()}" for table in tables]
        meanings = [f"- `{name}`: {rule.meaning} (better: {rule.goes})" for name, rule in SCORES.items()]
        about = [f"- `{name}`: {text}" for name, text in sorted(self.entries.items())]
        return "\n\n".join([*parts, "## Scores", "\n".join(meanings), "## Entries", "\n".join(about)]) + "\n"


def _table(title: str, lines: list[ScoreLine]) -> TextTable:
    scores = list(dict.fromkeys(line.score for line in lines))
    told = {(line.entry, line.score): line for line in lines}
    entries = list(dict.fromkeys(line.entry for line in lines))
    made_by = {line.entry: line.made_by for line in lines}
    first = scores[0]
    header = ("entry", "made by", *(f"{name} (95 %)" if name == first else name for name in scores))
    rows = [
        (
            entry,
            made_by[entry],
            *(_cell(told.get((entry, name)), with_ends=name == first) for name in scores),
            _versus(told.get((entry, first))),
        )
        for entry in entries
    ]
    return TextTable(title, (*header, "against the baseline"), rows, "ll".ljust(len(header) + 1, "r"))


def _cell(line: ScoreLine | None, *, with_ends: bool) -> str:
    if line is None or line.value is None:
        return ""
    ends = f" ({line.low:.3f} to {line.high:.3f})" if with_ends and line.low is not None else ""
    return f"{line.value:.3f}{ends}"


def _versus(line: ScoreLine | None) -> str:
    if line is None or line.versus is None or line.versus_low is None:
        return ""
    return f"{line.versus:+.3f} ({line.versus_low:+.3f} to {line.versus_high:+.3f})"
