"""A cost model in a file: that of ``costmodel.transfer``, with what was measured. Nothing is unpickled."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.features import COLUMNS
from costmodel.transfer import FromScratch, StorableModel, TransferModel, load_model, save_model

Measured = Mapping[str, tuple[FloatArray, FloatArray]]

_MEASURED, _PRETRAINED = "measured", "pretrained"


def save(path: Path, model: TransferModel | None, measured: Measured) -> None:
    """Write a model and measurements.

    Args:
        path: The file; one that is there is replaced at once.
        model: The pretrained model, if there is one.
        measured: By task the features and latencies of what was measured.

    Raises:
        CostModelError: The model cannot be stored, or the file not be written.
    """
    if model is not None and not isinstance(model, StorableModel):
        raise CostModelError(
            f"A model to save must be a StorableModel of costmodel.transfer, but got {type(model).__name__}."
        )
    nothing = np.zeros((1, len(COLUMNS)))
    stored = model or FromScratch().fit(nothing, np.ones(1), np.zeros(1))
    tasks = {task: {"X": X, "y": y} for task, (X, y) in measured.items()}
    columns = [column.name for column in COLUMNS]
    save_model(stored, path, {"columns": columns, _PRETRAINED: model is not None, _MEASURED: tasks})


def load(path: Path) -> tuple[TransferModel | None, Measured]:
    """Read what ``save`` or ``costmodel train`` wrote.

    Raises:
        CostModelError: The file cannot be read, is damaged, or is of other features than this version's.
    """
    loaded = load_model(path)
    loaded.require_columns(COLUMNS)
    metadata: dict[str, Any] = loaded.metadata
    measured = {task: (rows["X"], rows["y"]) for task, rows in metadata.get(_MEASURED, {}).items()}
    for task, (X, y) in measured.items():
        if X.shape != (len(y), len(COLUMNS)) or not (y > 0).all():
            raise CostModelError(f"{path} is damaged: the measurements of {task} do not fit. Tune again.")
    return loaded.model if metadata.get(_PRETRAINED, True) else None, measured
