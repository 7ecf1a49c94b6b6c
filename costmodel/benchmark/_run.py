"""Run the benchmark: pose the questions, let entries answer them, and judge the answers."""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from costmodel.benchmark._entry import BenchEntry, check_interval, open_entry, shipped_entries
from costmodel.benchmark._pose import pose
from costmodel.benchmark._question import SALT, Posed
from costmodel.benchmark._scores import SCORES, Judged, judge_answer
from costmodel.benchmark._sheet import DIGITS, ScoreLine, ScoreSheet
from costmodel.benchmark._submission import open_submission
from costmodel.benchmark._tracks import TRACKS, baseline_of, tracks_of
from costmodel.errors import CostModelError
from costmodel.learners._base import Prediction
from costmodel.reading import exists
from costmodel.report._progress import Progress
from costmodel.transfer._plan import one_blas_thread

_ALONE = "from-nothing"  # what no entry is to do harm against


@dataclass(frozen=True)
class BenchRun:
    """What a run found, and what it cost.

    Attributes:
        sheet: The scores: the same for the same data, entries, salt and versions of libraries.
        seconds: Of processors, that each entry took to learn and to answer, over all questions and seeds.
    """

    sheet: ScoreSheet
    seconds: Mapping[str, float]


def run_benchmark(
    tracks: Sequence[str] = (),
    entries: Sequence["str | Path | BenchEntry"] = (),
    *,
    salt: str = SALT,
    seeds: int | None = None,
) -> BenchRun:
    """Let entries answer the questions of tracks, and judge them; shows progress.

    Args:
        tracks: Names of ``TRACKS``. Default: all.
        entries: Names of entries or learners, files of predictions or of models, and entries of your own.
            Default: all that come with the benchmark but extra ones. The baselines and what answers are
            judged against are added.
        salt: Salt of the split. Another one shows whether a result is that of one split.
        seeds: Runs of each entry that draws at random. Default: as many as the entry says.

    Raises:
        CostModelError: A track or an entry is unknown, a file is refused, or a dataset is not there.
    """
    chosen = tracks_of(tracks)
    asked = list(dict.fromkeys(name for track in chosen for name in TRACKS[track].questions))
    by_default = [entry for entry in shipped_entries().values() if not entry.is_extra]
    judges = [_open(each, salt, asked) for each in entries] or by_default
    known = _names(judges)
    added = dict.fromkeys([*map(baseline_of, asked), _ALONE])
    judges = [*(open_entry(name) for name in added if name not in known), *judges]
    running = _Running(salt, seeds)
    with one_blas_thread(), Progress("benchmark", total=len(asked) * len(judges)) as progress:
        for name in asked:
            running.judge(name, judges, progress)
    lines = tuple(line for track in chosen for line in running.lines(track))
    about = {name: entry.about for name, entry in running.entries.items()}
    return BenchRun(ScoreSheet(salt, running.data, running.digests, about, lines), running.seconds)


def _names(entries: Sequence[BenchEntry]) -> set[str]:
    """Names of the entries, by which they are told apart.

    Raises:
        CostModelError: Two have one, or an entry has that of another that comes with the benchmark.
    """
    found, shipped = dict[str, BenchEntry](), shipped_entries()
    for entry in entries:
        if entry.name in found or shipped.get(entry.name, entry) is not entry:
            raise CostModelError(
                f"Each entry must have a name of its own, but {entry.name} is that of another one. Name each "
                "once, and rename a file of predictions: its entry is called as the file."
            )
        found[entry.name] = entry
    return {*found}


def _open(entry: "str | Path | BenchEntry", salt: str, asked: Sequence[str]) -> BenchEntry:
    """Open an entry.

    Raises:
        CostModelError: There is none, or it is a file that answers nothing that is asked.
    """
    if isinstance(entry, BenchEntry):
        return entry
    if isinstance(entry, Path) or "/" in entry or "." in entry or exists(Path(entry)):
        submission = open_submission(Path(entry), salt)
        if not set(asked) & set(submission.questions):
            raise CostModelError(
                f"{entry} must answer a question of the tracks, {', '.join(asked)}, but answers "
                f"{', '.join(submission.questions)}. Name its track by --track."
            )
        return submission
    return open_entry(entry)


@dataclass
class _Running:
    """Answers as they come, by question and entry."""

    salt: str
    seeds: int | None
    data: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    runs: dict[str, dict[str, list[Judged]]] = field(default_factory=dict)
    entries: dict[str, BenchEntry] = field(default_factory=dict)

    def judge(self, question: str, entries: Iterable[BenchEntry], progress: Progress) -> None:
        """Let all entries answer a question."""
        posed = pose(question, self.salt)
        self.data |= posed.data
        self.digests[question] = posed.digest
        is_harm = question in TRACKS["harm"].questions
        alone = open_entry(_ALONE).answer(posed.question) if is_harm else None
        for entry in entries:
            progress.advance(f"{entry.name}: {question}")
            if entry.can_answer(posed.question):
                runs = [judge_answer(posed, answer, alone) for answer in self._answers(entry, posed)]
                self.runs.setdefault(question, {})[entry.name] = runs
                self.entries[entry.name] = entry

    def lines(self, track: str) -> Iterator[ScoreLine]:
        """Each score of a track, by question and entry, the best first."""
        for question in TRACKS[track].questions:
            told = {name: Judged.mean(runs) for name, runs in self.runs.get(question, {}).items()}
            for score in TRACKS[track].scores:
                lines = [self._line(track, question, name, score, told) for name in told]
                goes_down = SCORES[score].goes == "down"
                lines = [line for line in lines if line.value is not None]
                yield from sorted(lines, key=lambda line: (_rank(line, goes_down), line.entry))

    def _answers(self, entry: BenchEntry, posed: Posed) -> Iterator[Prediction]:
        for seed in range(min(entry.seeds, self.seeds or entry.seeds) if entry.seeds > 1 else 1):
            start = time.process_time()
            answer = entry.answer(posed.question, seed)
            took = time.process_time() - start
            self.seconds[entry.name] = self.seconds.get(entry.name, 0.0) + took
            _check(entry, answer, len(posed.question.asked))
            yield answer

    def _line(
        self, track: str, question: str, entry: str, score: str, told: Mapping[str, Judged]
    ) -> ScoreLine:
        own, runs = told[entry], self.runs[question][entry]
        versus: tuple[float | None, ...] = (None, None, None)
        baseline = baseline_of(question)
        if entry != baseline and baseline in told:
            versus = _rounded(own.difference(told[baseline], score))
        each = _rounded([run.value(score) for run in runs]) if len(runs) > 1 else ()
        value, low, high = _rounded([own.value(score), *own.interval(score)])
        return ScoreLine(
            track, question, score, entry, self.entries[entry].made_by, value, low, high, each, *versus
        )


def _rank(line: ScoreLine, goes_down: bool) -> float:
    assert line.value is not None
    return line.value if goes_down else -line.value


def _rounded(values: Iterable[float]) -> "tuple[float | None, ...]":
    """Rounded so that sums in another order tell the same; None for what is not known."""
    return tuple(round(float(value), DIGITS) + 0.0 if np.isfinite(value) else None for value in values)


def _check(entry: BenchEntry, answer: Prediction, asked: int) -> None:
    """Check the shapes and numbers of an answer.

    Raises:
        CostModelError: Something is missing or not finite.
    """
    for name in ("score", "latency_s", "low_s", "high_s"):
        values = getattr(answer, name)
        if values is None:
            continue
        if (
            values.shape != (asked,)
            or not np.isfinite(values).all()
            or (name != "score" and values.min() <= 0)
        ):
            raise CostModelError(
                f"The {name} of an answer must be {asked} finite numbers, seconds above 0, but {entry.name} "
                f"gave {values.shape} with {int((~np.isfinite(values)).sum())} that are not finite."
            )
    check_interval(entry.name, answer)
