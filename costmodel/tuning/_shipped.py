"""What is known without being told: datasets that ship, and models of them that were trained before."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path

from costmodel.dataset import Dataset, dataset_hash, families_in, find_dataset, load_dataset
from costmodel.errors import CostModelError
from costmodel.features import COLUMNS
from costmodel.files import make_folder
from costmodel.records import Workload
from costmodel.transfer import Model, load_model
from costmodel.tuning._knowledge import learner_for
from costmodel.tuning._training import train
from costmodel.version import __version__

MODELS_VARIABLE = "COSTMODEL_MODELS"
# The first that has kernels of a family is learned from. wide-sm-budgets is left out: kernels of operators
# drawn at random make the choice for those of networks worse (experiments/breadth).
_LEARNED_FROM = (
    "sm-budgets",
    "h100-sm-budgets",
    "cuda-sm-budgets",
    "triton-sm-budgets",
    "sparse-sm-budgets",
)


@dataclass(frozen=True)
class ShippedDataset:
    """A dataset that ships and is installed.

    Attributes:
        name: Its name.
        families: Names of the workloads that it has, by family of kernels, see ``Candidate.family``.
    """

    name: str
    families: dict[str, frozenset[str]]

    @property
    def model_file(self) -> Path:
        """Where the model is that ``pretrain`` makes of it."""
        return models_folder() / f"{self.name}.costmodel"

    def load(self) -> Dataset:
        """Its measurements, read by the first call."""
        return _loaded(self.name)

    def model(self) -> Model | None:
        """The model of it; None where there is none of these measurements and this version."""
        if not self.model_file.is_file():
            return None
        model = load_model(self.model_file)
        about = model.metadata
        is_current = (
            about.versions.get("costmodel") == __version__
            and about.dataset_sha256 == dataset_hash(self.name)
            and {column.name for column in COLUMNS} <= set(about.columns)
        )
        return model if is_current else None


def models_folder() -> Path:
    """Where models of what ships are kept.

    It is ``$COSTMODEL_MODELS``, or ``~/.local/share/costmodel/models`` (``$XDG_DATA_HOME`` stands in for
    ``~/.local/share``).
    """
    if named := os.environ.get(MODELS_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_DATA_HOME") or "~/.local/share").expanduser() / "costmodel" / "models"


def shipped_for(family: str, workload: Workload) -> ShippedDataset | None:
    """The dataset that ships and tells most of a family's kernels for a workload; None where none does.

    That is one that has the workload, else one that has others of its kind, else any with the family.

    Args:
        family: What the parameters of the kernels are known by, see ``Candidate.family``.
        workload: What they compute.
    """
    return _telling(_installed(), family, workload)


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
    """Train a model of each dataset that ships, for later searches and predictions to use.

    Each is of the learner that ``tune`` would take for such kernels, and replaces the one that was there; see
    ``models_folder``. ``wide-sm-budgets`` is left out, and ``h100-sm-budgets`` where the larger
    ``sm-budgets`` is installed.

    Args:
        seed: Seed of the learners' random choices.

    Returns:
        The models by the name of their dataset.

    Raises:
        CostModelError: A file cannot be written.
    """
    make_folder(models_folder())
    found = {}
    for each in _without_repeats(_installed()):
        data = each.load()
        model = train(data, learner_for(data.candidates[0]), seed=seed)
        model.save(each.model_file)
        found[each.name] = replace(model, path=each.model_file)
    return found


def pretrained(family: str = "", workload: Workload | None = None) -> Model:
    """The model of ``pretrain`` for kernels of a family.

    Args:
        family: What the parameters of the kernels are known by, see ``Candidate.family``; MetaSchedule's
            unless given.
        workload: What they compute; any unless given.

    Raises:
        CostModelError: There is none of this version.
    """
    dataset = _telling(_without_repeats(_installed()), family, workload)
    model = dataset.model() if dataset else None
    if model is None:
        raise CostModelError(
            f"A model of {family or 'MetaSchedule'}'s kernels and of this version must be in "
            f"{models_folder()}, but is not: run `costmodel train`."
        )
    return model


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
