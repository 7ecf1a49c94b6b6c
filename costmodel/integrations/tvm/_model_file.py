"""A cost model in a file: a ``Model`` of ``costmodel.transfer``, with what was measured attached to it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.features._extract import COLUMNS
from costmodel.learners._stored_state import StoredState
from costmodel.transfer._base import TransferModel
from costmodel.transfer._store import ModelMetadata, software_versions
from costmodel.transfer.models._residual import FromScratch
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.tuning._shipped import pretrained

# A pretrained model, what is inside of one, or its file.
AnyModel = Model | TransferModel | Path | str
Measured = Mapping[str, tuple[FloatArray, FloatArray]]

# In place of a file, the model of what ships.
DEFAULT = "default"
_MEASURED = "measured"


def save(path: Path, pretrained: Model | None, measured: Measured) -> None:
    """Write a model and measurements.

    Args:
        path: The file; one that is there is replaced at once.
        pretrained: The pretrained model, if there is one.
        measured: By task the features and latencies of what was measured.

    Raises:
        CostModelError: The model cannot be stored, or the file not be written.
    """
    model = pretrained or _ignorant()
    metadata = msgspec.structs.replace(model.metadata, columns=tuple(column.name for column in COLUMNS))
    tasks = {task: {"X": X, "y": y} for task, (X, y) in measured.items()}
    replace(model, metadata=metadata, attachments={_MEASURED: tasks}).save(path)


def open_model(model: AnyModel | None) -> tuple[Model | None, Measured]:
    """A pretrained model however it is given, and what was measured if it is a file; see ``load``.

    Args:
        model: The model, its file, or ``"default"`` for that of what ships, see
            ``costmodel.tuning.pretrained``; None for none.

    Raises:
        CostModelError: There is no such model, or it is not of this version's features.
    """
    if model == DEFAULT:
        return pretrained(), {}
    if isinstance(model, Path | str):
        return load(Path(model))
    return (Model(model) if isinstance(model, TransferModel) else model), {}


def load(path: Path) -> tuple[Model | None, Measured]:
    """Read what ``save`` or ``costmodel train`` wrote; a model that learned nothing is none.

    Raises:
        CostModelError: The file cannot be read, is damaged, or is of other features than this version's.
    """
    loaded = load_model(path)
    loaded.require_columns(COLUMNS)
    try:
        attached = StoredState(dict(loaded.attachments.get(_MEASURED, {})))
        measured = {task: _check_measured(attached.part(task)) for task in attached}
    except (KeyError, TypeError, ValueError) as error:
        raise CostModelError(
            f"{path} is damaged: the measurements of a task do not fit ({error}). Tune again."
        ) from error
    return None if isinstance(loaded.model, FromScratch) else loaded, measured


def _check_measured(rows: dict[str, Any]) -> tuple[FloatArray, FloatArray]:
    """Return features and latencies of a task.

    Raises:
        KeyError: One is missing.
        ValueError: They are of other shapes or types, or a latency is not above 0.
    """
    stored = StoredState(rows, {"columns": len(COLUMNS)})
    X = stored.floats("X", "n", "columns", missing=True, infinite=True)
    y = stored.floats("y", "n", infinite=True)
    if not (y > 0).all():
        raise ValueError("latencies must be above 0")
    return X, y


def _ignorant() -> Model:
    nothing = np.zeros((1, len(COLUMNS)))
    metadata = ModelMetadata(learner="scratch", versions=software_versions())
    return Model(FromScratch().fit(nothing, np.ones(1), np.zeros(1)), metadata)
