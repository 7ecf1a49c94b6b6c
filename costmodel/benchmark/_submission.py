"""Submissions: questions as files, predictions and models as files, and what is refused of them.

A file of predictions is Parquet or CSV with a row for each asked row: ``question``, ``id``, ``score`` (higher
is better) and, if the model tells them, ``latency_s``, ``low_s`` and ``high_s`` in seconds. A question is
answered whole or not at all. A seed, if several runs are to be judged, is a column ``seed`` from 0 on.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.benchmark._entry import BenchEntry, check_interval
from costmodel.benchmark._pose import QUESTIONS, name_rows, pose
from costmodel.benchmark._question import ASKED, SALT, AnswerKey, BenchQuestion
from costmodel.benchmark._tracks import TRACKS, tracks_of
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.errors import CostModelError
from costmodel.features._extract import COLUMNS
from costmodel.files import replacing, write_json
from costmodel.learners._base import Prediction
from costmodel.reading import read_bytes, refusing
from costmodel.transfer.prediction._model import Model, load_model

_WHAT = "a file of predictions"
_SECONDS = ("latency_s", "low_s", "high_s")
_REMEDY = "See docs/how-to/enter-the-benchmark.md for its columns."
_TOO_GOOD = 1e-3  # median relative error: repeats of one kernel differ by more
_LEAST_TASKS = 20  # of which no model chooses the best of each


def write_tasks(folder: Path, tracks: Sequence[str] = (), salt: str = SALT) -> list[Path]:
    """Write the questions as files, for models in any language; there is no answer in them.

    Each question has ``known.parquet`` (what to learn from, and what was measured of the asked tasks, by
    ``role``) and ``asked.parquet`` (what to predict), both with the columns of ``BenchQuestion.rows`` and the
    features. ``questions.json`` has the salt, the datasets and the units of the features.

    Args:
        folder: Folder to write into.
        tracks: Tracks whose questions are written. Default: all.
        salt: Salt of the split.

    Raises:
        CostModelError: A track is unknown, or a file cannot be written.
    """
    names = dict.fromkeys(name for track in tracks_of(tracks) for name in TRACKS[track].questions)
    written, told = [], {}
    for name in names:
        posed = pose(name, salt)
        question = posed.question
        values = {column.name: question.features[:, i] for i, column in enumerate(question.columns)}
        table = pd.concat([question.rows, pd.DataFrame(values)], axis=1)
        asked = table["role"] == ASKED
        parts = {"known": table[~asked], "asked": table[asked].drop(columns=["latency_s", "role"])}
        for part, rows in parts.items():
            written.append(folder / name / f"{part}.parquet")
            _write_parquet(written[-1], rows)
        units = {column.name: column.unit for column in question.columns}
        told[name] = {"sha256": posed.digest, "data": posed.data, "asked": int(asked.sum()), "units": units}
    written.append(folder / "questions.json")
    write_json(written[-1], {"salt": salt, "questions": told})
    return written


def seal(dataset: DatasetLike, published: str | None = None) -> str:
    """Return the hash by which a dataset is sealed: published today, it shows tomorrow that nothing changed.

    It is the SHA-256 of a line for each kernel on a platform, ``id latency``, the latency as a hexadecimal
    float, in the order of ids; the form of the file does not enter.

    Args:
        dataset: A dataset, its name or its path.
        published: A hash that was published before.

    Raises:
        CostModelError: The dataset cannot be read, or has another hash.
    """
    read = load_dataset(dataset)
    rows = name_rows(read)
    lines = sorted(f"{id_} {float(s).hex()}" for id_, s in zip(rows["id"], rows["latency_s"], strict=True))
    found = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    if published not in (None, found):
        raise CostModelError(
            f"{read.name} must have the hash that was published, {published}, but has {found}: it is another "
            "dataset, or was changed since."
        )
    return found


def write_predictions(path: Path, answers: "dict[str, tuple[BenchQuestion, Prediction]]") -> None:
    """Write answers as a file of predictions.

    Args:
        path: A Parquet file.
        answers: By name of the question, the question and what is said of its asked rows.
    """
    parts = []
    for name, (question, answer) in answers.items():
        columns = {"score": answer.score} | {
            each: values for each in _SECONDS if (values := getattr(answer, each)) is not None
        }
        ids = question.rows["id"].to_numpy()[question.asked]
        parts.append(pd.DataFrame({"question": name, "id": ids, **columns}))
    _write_parquet(path, pd.concat(parts, ignore_index=True))


@dataclass(frozen=True)
class Verified:
    """What was found of a submission that is accepted.

    Attributes:
        name: Name of the entry.
        questions: The questions that it answers.
        tracks: The tracks of which it answers every question.
    """

    name: str
    questions: tuple[str, ...]
    tracks: tuple[str, ...]


def verify(path: Path, salt: str = SALT) -> Verified:
    """Check a submission: a file of predictions, or a trained model.

    Args:
        path: The file.
        salt: Salt of the split.

    Raises:
        CostModelError: It is refused. Predictions: an id is not asked, missing, there twice or without a
            finite number; or they are the answers. A model: it learned from workloads that are asked.
    """
    entry = open_submission(path, salt)
    questions = tuple(name for name in QUESTIONS if name in entry.questions)
    tracks = tuple(name for name, track in TRACKS.items() if set(track.questions) <= set(questions))
    return Verified(entry.name, questions, tracks)


def open_submission(path: Path, salt: str = SALT) -> "SubmittedPredictions | SubmittedModel":
    """Open a file of predictions or of a model as an entry, if it passes ``verify``.

    Raises:
        CostModelError: It does not.
    """
    if path.suffix in (".parquet", ".csv"):
        return SubmittedPredictions(path, salt)
    try:
        return SubmittedModel(path, salt)
    except CostModelError as error:
        raise CostModelError(
            f"{error} (The name of a file of predictions ends in .parquet or .csv.)"
        ) from error


class SubmittedPredictions(BenchEntry):
    """Predictions that were made elsewhere.

    Args:
        path: A Parquet or CSV file, see this module.
        salt: Salt of the split.

    Raises:
        CostModelError: They are refused, see ``verify``.
    """

    made_by, about = "yours", "Predictions from a file."

    def __init__(self, path: Path, salt: str = SALT) -> None:
        self.name = path.stem
        self._answers: dict[str, list[Prediction]] = {}
        for name, rows in _read_predictions(path).groupby("question"):
            posed = pose(str(name), salt)
            runs = _runs(f"{path}, question {name}", rows)
            self._answers[str(name)] = [_answer(path, posed.question, posed.key, run) for run in runs]
        self.seeds = max(map(len, self._answers.values()))

    @property
    def questions(self) -> tuple[str, ...]:
        """Names of the questions that the file answers."""
        return tuple(self._answers)

    def can_answer(self, question: BenchQuestion) -> bool:
        """Return whether the file answers it."""
        return question.name in self._answers

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Return what the file says."""
        runs = self._answers[question.name]
        return runs[seed % len(runs)]


class SubmittedModel(BenchEntry):
    """A model that ``costmodel train`` saved.

    Args:
        path: The file.
        salt: Salt of the split.

    Raises:
        CostModelError: It cannot be read, or it learned from workloads that are asked.
    """

    made_by, about = "yours", "A trained model from a file."
    questions = ("operators",)

    def __init__(self, path: Path, salt: str = SALT) -> None:
        self.name, self._model = path.stem, load_model(path)
        _refuse_seen(path, self._model, pose(self.questions[0], salt).question)

    def can_answer(self, question: BenchQuestion) -> bool:
        """Return whether it is about the operators that it was trained for, on the split that was checked."""
        return question.name in self.questions

    def answer(self, question: BenchQuestion, seed: int = 0) -> Prediction:
        """Predict."""
        return self._model.model.predict(question.features[question.asked][:, : len(COLUMNS)])


def _refuse_seen(path: Path, model: Model, question: BenchQuestion) -> None:
    metadata = model.metadata
    asked = set(question.rows["workload"].to_numpy()[question.asked])
    if metadata.columns != tuple(column.name for column in COLUMNS):
        raise CostModelError(
            f"{path} must be a model of the {len(COLUMNS)} columns of TVM's kernels, but has others. Submit "
            "its predictions as a file."
        )
    if not metadata.workloads:
        raise CostModelError(
            f"{path} must say which workloads it learned from, but does not. Train it with `costmodel train`."
        )
    if seen := sorted(asked & set(metadata.workloads)):
        raise CostModelError(
            f"{path} must not have learned from what is asked, but did from {len(seen)} of {len(asked)} "
            f"workloads, such as {seen[0]}. Train it on the known rows of `costmodel bench tasks`."
        )


def _read_predictions(path: Path) -> pd.DataFrame:
    content = BytesIO(read_bytes(path, _WHAT, remedy=_REMEDY))
    with refusing(path, _WHAT, _REMEDY):
        read: Any = pd.read_parquet if path.suffix == ".parquet" else pd.read_csv
        rows: pd.DataFrame = read(content)
    if missing := sorted({"question", "id", "score"} - set(rows)):
        raise CostModelError(f"{path} must be {_WHAT}, but the column {missing[0]} is missing. {_REMEDY}")
    if rows.empty:
        raise CostModelError(f"{path} must be {_WHAT}, but there is no row. {_REMEDY}")
    rows = rows.astype({"question": str, "id": str})
    if unknown := sorted(set(rows["question"]) - set(QUESTIONS)):
        raise CostModelError(
            f"{path}: a question must be one of {', '.join(QUESTIONS)}, but got {unknown[0]!r}. {_REMEDY}"
        )
    return rows


def _runs(where: str, rows: pd.DataFrame) -> "list[pd.DataFrame]":
    """The rows of each run, by seed.

    Raises:
        CostModelError: Seeds are not the numbers of runs.
    """
    if "seed" not in rows:
        return [rows]
    seeds = pd.to_numeric(rows["seed"], errors="coerce")
    found = sorted(set(seeds.dropna()))
    if seeds.isna().any() or found != list(range(len(found))):
        told = ", ".join(map(str, rows["seed"].drop_duplicates().head(5)))
        raise CostModelError(
            f"{where}: seed must number the runs 0, 1, 2 and so on, in every row, but got {told}. {_REMEDY}"
        )
    return [run for _, run in rows.groupby(seeds)]


def _answer(path: Path, question: BenchQuestion, key: AnswerKey, rows: pd.DataFrame) -> Prediction:
    """The answer in the order of the question.

    Raises:
        CostModelError: It is refused.
    """
    where, asked = f"{path}, question {question.name}", question.rows["id"].to_numpy()[question.asked]
    for must, wrong in _wrong_ids(rows["id"], asked):
        raise CostModelError(
            f"{where}: {must}, but {len(wrong)} are not, such as {wrong[0]}. Another --salt asks others. "
            f"{_REMEDY}"
        )
    ordered = rows.set_index("id").loc[asked]
    values = dict[str, FloatArray]()
    for name in ("score", *_SECONDS):
        if name in ordered:
            with refusing(where, f"a file of numbers in the column {name}", _REMEDY):
                values[name] = ordered[name].to_numpy(np.float64)
    # A model that tells no seconds of a question leaves their cells empty.
    values = {name: each for name, each in values.items() if name == "score" or not np.isnan(each).all()}
    for name, each in values.items():
        bad = ~np.isfinite(each) | ((each <= 0) & (name != "score"))
        if bad.any():
            raise CostModelError(
                f"{where}: each {name} must be a finite number{'' if name == 'score' else ' above 0'}, but "
                f"{int(bad.sum())} are not, such as that of {asked[bad][0]}. {_REMEDY}"
            )
    answer = Prediction(**values)
    check_interval(where, answer)
    _refuse_answers(where, question, key, answer)
    return answer


def _wrong_ids(given: "pd.Series[str]", asked: np.ndarray[Any, Any]) -> Iterator[tuple[str, list[str]]]:
    found, wanted = set(given), set(asked)
    for must, wrong in (
        ("each id must be one that is asked", sorted(found - wanted)),
        ("each id must be there once", sorted(set(given[given.duplicated()]))),
        ("each id that is asked must be there", sorted(wanted - found)),
    ):
        if wrong:
            yield must, wrong


def _refuse_answers(where: str, question: BenchQuestion, key: AnswerKey, answer: Prediction) -> None:
    """Refuse predictions that are nearer to the answers than a second measurement would be."""
    ran = np.isfinite(key.latency_s)
    if answer.latency_s is not None:
        error = float(np.median(np.abs(answer.latency_s[ran] / key.latency_s[ran] - 1.0)))
        if error < _TOO_GOOD:
            raise CostModelError(
                f"{where}: predictions must be made without the answers, but half of them are within "
                f"{error:.2%} of what was measured, nearer than a second measurement is."
            )
    best, tasks = 0, 0
    for places, _, _ in question.asked_tasks():
        latency_s = key.latency_s[places]
        first = answer.score[places] == answer.score[places].max()
        best += int(latency_s[first].max() == latency_s.min())
        tasks += 1
    if best == tasks >= _LEAST_TASKS:
        raise CostModelError(
            f"{where}: predictions must be made without the answers, but they choose the best kernel of "
            f"every one of {tasks} tasks."
        )


def _write_parquet(path: Path, rows: pd.DataFrame) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pa.Table.from_pandas(rows, preserve_index=False).replace_schema_metadata(None)
    try:
        with replacing(path) as partial:
            pq.write_table(table, partial.absolute(), compression="zstd")
    except OSError as error:
        raise CostModelError(f"Cannot write {path}: {error.strerror}.") from error
