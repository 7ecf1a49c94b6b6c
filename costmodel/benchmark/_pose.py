"""Make the questions out of shipped datasets: what each holds out, what it tells, and what it asks."""

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.benchmark._pose_products import pose_products
from costmodel.benchmark._question import (
    ASKED,
    KNOWN,
    MEASURED,
    SALT,
    AnswerKey,
    BenchQuestion,
    Posed,
    draw_names,
    short_ids,
)
from costmodel.dataset._machine_code import load_machine_code
from costmodel.dataset._read_facts import load_read_facts
from costmodel.dataset.splits._folds import select_whole_device
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import load_dataset
from costmodel.errors import CostModelError, did_you_mean
from costmodel.evaluation._judge import whole_device_latency
from costmodel.features._extract import COLUMNS
from costmodel.records._workload import Workload
from costmodel.transfer._rows import LearningRows

Mask = NDArray[np.bool_]

_HELD_OUT = 1 / 3  # of the operators, or of the kernels
_OPERATORS, _KERNELS = "sampled-sm-budgets", "kernels-at-large"
_DEVICE, _OTHER_DEVICE = "NVIDIA H200", "NVIDIA H100 80GB HBM3"
_SHOTS = (1, 4, 16)  # measurements of a task of which few are known
_HARM_SHOTS = 8
_FEW_SMS = (16, 64)  # where they are measured
_STAGES = {"ir", "compiled"}  # groups of columns that only some datasets have


def pose(name: str, salt: str = SALT) -> Posed:
    """Make a question.

    Args:
        name: One of ``QUESTIONS``.
        salt: Salt of all that is drawn.

    Raises:
        CostModelError: There is no such question, or its dataset is not there.
    """
    if name not in QUESTIONS:
        raise CostModelError(
            f"A question must be one of {', '.join(QUESTIONS)}, but got {name!r}."
            + did_you_mean(name, QUESTIONS)
        )
    return QUESTIONS[name](name, salt)


def _operators(name: str, salt: str) -> Posed:
    """Choose and time kernels of operators that were never measured."""
    pool = _pool(_OPERATORS, _DEVICE)
    return pool.ask(name, _shapes_held_out(pool.rows, salt))


def _kernels(name: str, salt: str) -> Posed:
    """Choose configs of kernels, each written by somebody else, that were never measured."""
    pool = _pool(_KERNELS, _OTHER_DEVICE)
    return pool.ask(name, _drawn(pool.rows["kind"], salt) < _HELD_OUT)


def _budgets(name: str, salt: str) -> Posed:
    """Choose kernels for parts of a GPU, each of which was timed on the whole of it."""
    pool = _pool(_OPERATORS, _DEVICE)
    return pool.ask(name, _shapes_held_out(pool.rows, salt) & ~select_whole_device(pool.rows))


def _devices(name: str, salt: str) -> Posed:
    """Choose and time kernels of operators that were never measured on a GPU that never was either."""
    pool = _pool(_OPERATORS, _DEVICE, _OTHER_DEVICE)
    held_out = _shapes_held_out(pool.rows, salt)
    here = (pool.rows["device"] == _DEVICE).to_numpy()
    return pool.ask(name, held_out & here, left_out=held_out ^ here)


def _few(shots: int) -> Callable[[str, str], Posed]:
    def ask(name: str, salt: str) -> Posed:
        """Choose the next kernel after a few random ones were measured."""
        pool = _pool(_OPERATORS, _DEVICE)
        held_out = _shapes_held_out(pool.rows, salt)
        few = held_out & pool.rows["sms_granted"].isin(_FEW_SMS).to_numpy()
        return pool.ask(name, few, left_out=held_out & ~few, measured=_first(pool.rows, shots, salt) & few)

    return ask


def _misled(name: str, salt: str) -> Posed:
    """As after eight measurements, but half of the sources are reversed, and half are shuffled."""
    posed = _few(_HARM_SHOTS)(name, salt)
    rows = posed.question.rows
    known = rows[rows["role"] == KNOWN]
    spoilt = rows["latency_s"].copy()
    for task, those in known.groupby("task", sort=False):
        turned = draw_names([str(task)], f"{salt}/spoil")[0] < 0.5
        spoilt[those.index] = _reversed(those) if turned else _shuffled(those, salt)
    return replace(posed, question=replace(posed.question, rows=rows.assign(latency_s=spoilt)))


QUESTIONS: dict[str, Callable[[str, str], Posed]] = {
    "operators": _operators,
    "kernels": _kernels,
    "products": pose_products,
    "budgets": _budgets,
    "devices": _devices,
    **{f"few-{shots}": _few(shots) for shots in _SHOTS},
    "honest": _few(_HARM_SHOTS),
    "misled": _misled,
}
"""Each question by name."""


class _Pool:
    """Measured kernels of a dataset with their features, of which a part is asked for.

    Args:
        dataset: The dataset.
        read: Keywords of ``LearningRows.of``: what was read of kernels or made of them.
    """

    def __init__(self, dataset: Dataset, **read: Any) -> None:
        data = LearningRows.of(dataset, **read)
        # Columns of one family of kernels tell nothing of another, and kernels are held out whole.
        taken = [i for i, column in enumerate(data.features.columns) if column.group in _STAGES]
        taken = [*range(len(COLUMNS)), *taken]
        self.columns = tuple(data.features.columns[i] for i in taken)
        self.features = data.table.values[:, taken]
        self.data = {dataset.name: dataset.sha256}
        self.rows = name_rows(dataset)
        self.whole_s = whole_device_latency(dataset.rows)

    def ask(
        self, name: str, held_out: Mask, *, left_out: Mask | None = None, measured: Mask | None = None
    ) -> Posed:
        """Ask for the rows that are held out, tell all others, and leave some out of both.

        Args:
            name: Name of the question.
            held_out: ``(n,)`` the rows that are not known.
            left_out: ``(n,)`` rows that are on neither side.
            measured: ``(n,)`` rows of ``held_out`` that are told as first measurements.
        """
        role = np.where(held_out, ASKED, KNOWN)
        role = role if measured is None else np.where(measured, MEASURED, role)
        told = self.rows.assign(role=role)
        taken = np.ones(len(told), np.bool_) if left_out is None else ~left_out
        taken &= _can_be_chosen(told, taken)
        told, whole_s = told[taken].reset_index(drop=True), self.whole_s[taken]
        asked = (told["role"] == ASKED).to_numpy()
        key = AnswerKey(told["latency_s"].to_numpy()[asked], whole_s[asked])
        told.loc[asked, "latency_s"] = np.nan
        return Posed(BenchQuestion(name, told, self.features[taken], self.columns), key, self.data)


@lru_cache(maxsize=2)
def _pool(dataset: str, *devices: str) -> _Pool:
    data = load_dataset(dataset, devices=devices)
    if dataset == _KERNELS:
        return _Pool(data, read=load_read_facts(data))
    return _Pool(data, compiled=load_machine_code(data))


def name_rows(dataset: Dataset) -> pd.DataFrame:
    """Return the rows of a dataset without its positions, each with an id and its config."""
    rows, platforms = dataset.rows, [platform.platform_id for platform in dataset.platforms]
    ids, configs = dataset.columns.ids, [_config(each) for each in dataset.candidates]
    pairs = zip(rows["candidate"], rows["platform"], strict=True)
    named = [f"{ids[candidate]}/{platforms[platform]}" for candidate, platform in pairs]
    plain = {name: rows[name].astype(str) for name in ("task", "workload", "kind", "device")}
    return pd.DataFrame(
        {
            "id": short_ids(named),
            **plain,
            "sms_granted": rows["sms_granted"],
            "config": [configs[i] for i in rows["candidate"]],
            "latency_s": rows["latency_s"],
        }
    )


def _config(candidate: Any) -> str:
    return msgspec.json.encode(dict(candidate.config.decisions)).decode()


def _can_be_chosen(told: pd.DataFrame, taken: Mask) -> Mask:
    """``(n,)`` whether a row is known, or of a task of two rows or more of which an asked one ran."""
    asked = taken & (told["role"] != KNOWN).to_numpy()
    of_task = told["task"].where(asked)
    ran = np.isfinite(told["latency_s"]) & (told["role"] == ASKED) & asked
    tells = (of_task.groupby(of_task).transform("size") > 1) & ran.groupby(of_task).transform("any")
    return np.asarray(~asked | tells.fillna(False).astype(bool).to_numpy())


def _shapes_held_out(rows: pd.DataFrame, salt: str) -> Mask:
    """A third of the shapes, in every dtype and layout and with every epilogue."""
    shape_of = {name: Workload.parse(name).shape.name for name in rows["workload"].unique()}
    return np.asarray(_drawn(rows["workload"].map(shape_of), salt) < _HELD_OUT)


def _drawn(names: "pd.Series[Any]", salt: str) -> FloatArray:
    """``(n,)`` the same number for the same name."""
    codes, distinct = pd.factorize(names)
    return draw_names(map(str, distinct), salt)[codes]


def _first(rows: pd.DataFrame, count: int, salt: str) -> Mask:
    """``(n,)`` so many rows of each task, the same for each salt; fewer are among more."""
    draws = pd.Series(draw_names(rows["id"], f"{salt}/measured"), rows.index)
    return np.asarray(draws.groupby(rows["task"]).rank() <= count)


def _reversed(task: pd.DataFrame) -> FloatArray:
    """The best kernel has the latency of the worst, and so on; failures stay failures."""
    y = task["latency_s"].to_numpy()
    ran = y[np.isfinite(y)]
    return np.where(np.isfinite(y), ran.min() * ran.max() / y, y) if ran.size else y


def _shuffled(task: pd.DataFrame, salt: str) -> FloatArray:
    """Kernels of a task change places."""
    return task["latency_s"].to_numpy()[np.argsort(draw_names(task["id"], f"{salt}/shuffle"))]
