"""One run a seed, for learners that depend on one."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from costmodel.columns import Column
from costmodel.features._extract import COLUMNS
from costmodel.learners._base import Learner
from costmodel.transfer._base import TransferModel

Make = Callable[[Sequence[Column], int], TransferModel]


def seeded_runs(make: Make, seeds: Sequence[int]) -> list[Callable[[Sequence[Column]], TransferModel]]:
    """A factory for each seed, or for the first alone where the seed changes nothing.

    It changes something where it is among the settings of the model or of a learner in it.

    Args:
        make: Makes an unfitted model for a table's columns and a seed.
        seeds: At least one.
    """
    depends = _settings(make(COLUMNS, 0)) != _settings(make(COLUMNS, 1))
    return [partial(_make, make, seed) for seed in (seeds if depends else seeds[:1])]


def _make(make: Make, seed: int, columns: Sequence[Column]) -> TransferModel:
    return make(columns, seed)


def _settings(value: Any) -> Any:
    """What a model was made with, models in it opened."""
    if isinstance(value, TransferModel | Learner):
        return type(value), {name: _settings(setting) for name, setting in vars(value).items()}
    if isinstance(value, list | tuple):
        return [_settings(item) for item in value]
    return value
