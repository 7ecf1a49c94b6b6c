"""Shipped datasets, and models trained on them in advance."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

import msgspec

from costmodel.columns import Column
from costmodel.dataset.table._dataset import Dataset, DatasetFile
from costmodel.dataset.table._files import find_dataset, hash_dataset
from costmodel.dataset.table._read import families_in, load_dataset
from costmodel.errors import CostModelError
from costmodel.evaluation._sides import join
from costmodel.features._extract import COLUMNS
from costmodel.files import expand_home, make_folder
from costmodel.reading import is_file
from costmodel.records._workload import Workload
from costmodel.transfer._base import TransferModel
from costmodel.transfer._make import make_model
from costmodel.transfer.models._conformal import Conformal
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.tuning._knowledge import learner_for
from costmodel.tuning._training import train, train_compiled
from costmodel.version import __version__

MODELS_VARIABLE = "COSTMODEL_MODELS"
# The first that has kernels of a family is learned from.
_LEARNED_FROM = (
    "sm-budgets",
    "h100-sm-budgets",
    "cuda-sm-budgets",
    "triton-sm-budgets",
    "sparse-sm-budgets",
)

# What the model that is trained in advance for the kernels of a dataset learns from in its place, if all of
# it is installed, and by which learner. Of workloads never seen, a few kernels of many operators teach more
# than many of a few; training takes a minute or two, which no search waits for (experiments/sampled_pool).
_TAUGHT_BY = {"sm-budgets": ("wide-sm-budgets", "sampled-sm-budgets")}
_LEARNER_OF_MANY = "committee"
# Fits and their rows for the intervals of that learner: with so few rows they take minutes, and cover as much
# as with more (experiments/sampled_pool).
_FOLDS, _FOLD_ROWS = 5, 25_000
# The dataset that tells what a compiler made of the kernels of another one's families.
_COMPILED = {"sm-budgets": "sampled-sm-budgets"}


@dataclass(frozen=True)
class ShippedDataset:
    """A shipped dataset that is installed.

    Attributes:
        name: Name of the dataset.
        families: Names of its workloads, by family of kernels (see ``Candidate.family``).
    """

    name: str
    families: dict[str, frozenset[str]]

    @property
    def model_file(self) -> Path:
        """File of the model that ``pretrain`` trains on it."""
        return models_folder() / f"{self.name}.costmodel"

    @property
    def compiled_file(self) -> Path:
        """File of the model of compiled kernels that ``pretrain`` trains."""
        return models_folder() / f"{self.name}-compiled.costmodel"

    @property
    def compiled(self) -> str | None:
        """Name of the dataset that the model of compiled kernels learns from; None where there is none."""
        name = _COMPILED.get(self.name)
        return name if name and _is_installed(name) else None

    @property
    def taught_by(self) -> tuple[str, ...]:
        """Names of the datasets that ``pretrain`` learns from."""
        names = _TAUGHT_BY.get(self.name, ())
        return names if names and all(map(_is_installed, names)) else (self.name,)

    @property
    def sha256(self) -> str:
        """SHA-256 of all that ``pretrain`` learns from, 64 hexadecimal digits."""
        found = [hash_dataset(name) for name in self.taught_by]
        return found[0] if len(found) == 1 else hashlib.sha256("".join(found).encode()).hexdigest()

    def load(self) -> Dataset:
        """Load the measurements; they are cached."""
        return _loaded(self.name)

    def load_all(self) -> Dataset:
        """Load all that ``pretrain`` learns from."""
        if self.taught_by == (self.name,):
            return self.load()
        joined = join(map(load_dataset, self.taught_by))
        return replace(joined, file=DatasetFile(Path("+".join(self.taught_by)), self.sha256))

    def model(self) -> Model | None:
        """Load the model of ``pretrain``; None if there is none for these measurements and this version."""
        return _current(self.model_file, self.sha256)

    def compiled_model(self) -> Model | None:
        """Load the model of compiled kernels of ``pretrain``; None likewise."""
        return None if self.compiled is None else _current(self.compiled_file, hash_dataset(self.compiled))


def _current(file: Path, sha256: str) -> Model | None:
    """The model in a file, if it is of this version and learned from measurements with this hash."""
    if not is_file(file):
        return None
    model = load_model(file)
    about = model.metadata
    is_current = (
        about.versions.get("costmodel") == __version__
        and about.dataset_sha256 == sha256
        and {column.name for column in COLUMNS} <= set(about.columns)
    )
    return model if is_current else None


def models_folder() -> Path:
    """Return the folder for models of shipped datasets.

    It is ``$COSTMODEL_MODELS`` if set, otherwise ``~/.local/share/costmodel/models`` (``$XDG_DATA_HOME``
    replaces ``~/.local/share``).
    """
    if named := os.environ.get(MODELS_VARIABLE):
        return Path(named)
    return expand_home(os.environ.get("XDG_DATA_HOME") or "~/.local/share") / "costmodel" / "models"


def shipped_for(family: str, workload: Workload) -> ShippedDataset | None:
    """The dataset that ships and tells most of a family's kernels for a workload; None where none does.

    That is one that has the workload, else one that has others of its kind, else any with the family.

    Args:
        family: What the parameters of the kernels are known by, see ``Candidate.family``.
        workload: What they compute.
    """
    return _telling(_installed(), family, workload)


def shipped_with(workload: str) -> tuple[str, ...]:
    """Names of the shipped datasets that have a workload, of those that models learn from."""
    return tuple(
        each.name for each in _installed() if any(workload in names for names in each.families.values())
    )


def _telling(
    datasets: Sequence[ShippedDataset], family: str, workload: Workload | None
) -> ShippedDataset | None:
    """The one of some datasets that tells most, as ``shipped_for`` says; None as workload is any."""
    with_family = [each for each in datasets if family in each.families]

    def tells(each: ShippedDataset) -> tuple[bool, bool]:
        names = each.families[family]
        if workload is None:
            return False, False
        return workload.name in names, any(Workload.parse(name).kind == workload.kind for name in names)

    return max(with_family, key=tells, default=None)


def pretrain(seed: int = 0) -> dict[str, Model]:
    """Train a model on each shipped dataset, for later searches and predictions.

    Each model uses the learner that ``tune`` would choose for such kernels, and replaces an existing model in
    ``models_folder``. That for TVM's kernels is a ``committee``, which learns from ``wide-sm-budgets`` and
    ``sampled-sm-budgets``, where these and ``sm-budgets`` are installed; another one learns from the machine
    code of the kernels of ``sampled-sm-budgets``. ``h100-sm-budgets`` is left out if the larger
    ``sm-budgets`` is installed.

    Args:
        seed: Seed of the learners' random choices.

    Returns:
        The models, by name of their dataset; that of compiled kernels by this name and ``-compiled``.

    Raises:
        CostModelError: A file cannot be written.
    """
    make_folder(models_folder())
    found = {}
    for each in _without_repeats(_installed()):
        data = each.load_all()
        many = len(each.taught_by) > 1
        alone = learner_for(data.candidates[0])
        model = _train_on_many(data, seed) if many else train(data, alone, seed=seed)
        model.save(each.model_file)
        found[each.name] = replace(model, path=each.model_file)
        if each.compiled:
            model = train_compiled(load_dataset(each.compiled), _LEARNER_OF_MANY, seed=seed)
            model.save(each.compiled_file)
            found[each.compiled_file.stem] = replace(model, path=each.compiled_file)
    return found


def _train_on_many(data: Dataset, seed: int) -> Model:
    """Train the learner of many operators, with intervals."""
    name = f"{_LEARNER_OF_MANY}+intervals"

    def make(columns: Sequence[Column]) -> TransferModel:
        model = make_model(name, columns, seed)
        assert isinstance(model, Conformal)
        model.folds, model.rows, model.large_rehearsals = _FOLDS, _FOLD_ROWS, model.rehearsals
        return model

    model = train(data, make, seed=seed)
    return replace(model, metadata=msgspec.structs.replace(model.metadata, learner=name))


def pretrained(family: str = "", workload: Workload | None = None) -> Model:
    """Load the model of ``pretrain`` for kernels of a family.

    Args:
        family: Family of the kernels' parameters (see ``Candidate.family``). Default: MetaSchedule's.
        workload: The workload that they compute. Default: any.

    Raises:
        CostModelError: There is no such model of this version.
    """
    dataset = _telling(_without_repeats(_installed()), family, workload)
    model = dataset.model() if dataset else None
    if model is None:
        raise CostModelError(
            f"A model of {family or 'MetaSchedule'}'s kernels and of this version must be in "
            f"{models_folder()}, but there is none. Run `costmodel train`."
        )
    return model


def pretrained_compiled(family: str = "", workload: Workload | None = None) -> Model | None:
    """Load the model of compiled kernels of ``pretrain``; None if there is none of this version.

    Args:
        family: Family of the kernels' parameters, as in ``pretrained``.
        workload: The workload that they compute. Default: any.
    """
    dataset = _telling(_without_repeats(_installed()), family, workload)
    return dataset.compiled_model() if dataset else None


@lru_cache(maxsize=2)
def _loaded(name: str) -> Dataset:
    return load_dataset(name)


@cache
def _installed() -> tuple[ShippedDataset, ...]:
    return tuple(ShippedDataset(name, families_in(name)) for name in _LEARNED_FROM if _is_installed(name))


def _is_installed(name: str) -> bool:
    try:
        find_dataset(name)
    except CostModelError:
        return False
    return True


def _without_repeats(datasets: Sequence[ShippedDataset]) -> list[ShippedDataset]:
    """Those that have a family which none before them has."""
    return [
        each
        for i, each in enumerate(datasets)
        if not set(each.families) <= set().union(*(other.families for other in datasets[:i]))
    ]
