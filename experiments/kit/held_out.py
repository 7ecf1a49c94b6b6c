"""Hold rows of a dataset out, fit learners to the others, and predict what was held out.

A fold says which rows are learned from and which are asked for: those of ``costmodel.dataset.make_split``, or
your own by ``Fold.of``. ``LearningRows.of(dataset)`` has the features of all rows.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields

import numpy as np

from costmodel.arrays import FloatArray, Positions
from costmodel.columns import Column
from costmodel.dataset.splits._folds import Fold
from costmodel.learners import Prediction
from costmodel.transfer import LearningRows, TransferModel

# Makes an unfitted model for the columns of a feature table and a seed, as ``partial(make_model, "stack")``.
Make = Callable[[Sequence[Column], int], TransferModel]


def fit_folds(
    data: LearningRows, folds: Iterable[Fold], make: Make, seed: int = 0
) -> Iterator[tuple[Fold, TransferModel]]:
    """Fit a model for each fold to the rows that the fold trains on, and to no other."""
    for fold in folds:
        yield fold, data.fit(make(data.features.columns, seed), fold.train)


def predict_held_out(data: LearningRows, folds: Iterable[Fold], make: Make, seed: int = 0) -> Prediction:
    """Predict each row by the model of the fold that asks for it; NaN for rows that no fold asks for."""
    parts = [
        (fold.test, data.predict(model, fold.test)) for fold, model in fit_folds(data, folds, make, seed)
    ]
    said = {field.name: _spread(parts, field.name, len(data.rows)) for field in fields(Prediction)}
    return Prediction(**said)  # type: ignore[arg-type]  # every model says a score


def _spread(parts: Sequence[tuple[Positions, Prediction]], name: str, n: int) -> FloatArray | None:
    """``(n,)`` what all parts say, each at its rows; None if one does not say it."""
    told = [(at, getattr(part, name)) for at, part in parts]
    if any(values is None for _, values in told):
        return None
    every = np.full(n, np.nan)
    for at, values in told:
        every[at] = values
    return every
