"""What a search learns from: a dataset that was named, or what ships with the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._knowledge import NOTHING
from costmodel.tuning._shipped import ShippedDataset, shipped_for


class History(Protocol):
    """What is known of the kernels of each family, see ``Candidate.family``."""

    def of(self, family: str) -> Dataset | None:
        """The measurements to learn from; None where there are none."""
        ...

    def model(self, family: str) -> Model | None:
        """A model that has learned from them; None where one must be trained."""
        ...

    def recorded(self, families: Sequence[str]) -> list[Dataset]:
        """Datasets that may have measurements of the very workload."""
        ...


@dataclass(frozen=True)
class GivenHistory:
    """One dataset for all kernels, or none."""

    dataset: Dataset | None = None

    def of(self, family: str) -> Dataset | None:
        """The dataset."""
        return self.dataset

    def model(self, family: str) -> Model | None:
        """None."""
        return None

    def recorded(self, families: Sequence[str]) -> list[Dataset]:
        """The dataset, if there is one."""
        return [] if self.dataset is None else [self.dataset]


@dataclass(frozen=True)
class ShippedHistory:
    """What ships: of each family the dataset that has it, and the model that ``pretrain`` made of that.

    Attributes:
        workload: What is tuned.
    """

    workload: Workload

    def of(self, family: str) -> Dataset | None:
        """The dataset of this family."""
        found = shipped_for(family, self.workload)
        return found.load() if found else None

    def model(self, family: str) -> Model | None:
        """The model of this family; None where the workload itself was measured, of which a new one knows."""
        found = shipped_for(family, self.workload)
        return None if found is None or self._is_in(found) else found.model()

    def recorded(self, families: Sequence[str]) -> list[Dataset]:
        """The datasets of these families that have the workload."""
        found = {each.name: each for family in families if (each := shipped_for(family, self.workload))}
        return [each.load() for each in found.values() if self._is_in(each)]

    def _is_in(self, dataset: ShippedDataset) -> bool:
        return any(self.workload.name in names for names in dataset.families.values())


def open_history(
    learn_from: DatasetLike | None,
    replay: DatasetLike | None,
    workload: Workload,
    device: Device,
    *,
    replayed: bool,
) -> History:
    """What to learn from: unless told, what is replayed, on a GPU what ships, on a CPU nothing.

    Args:
        learn_from: A dataset, its name or its path, or ``NOTHING``.
        replay: What is replayed.
        workload: What is tuned.
        device: Where.
        replayed: Whether measurements are replayed.

    Raises:
        CostModelError: A dataset cannot be found.
    """
    chosen = replay if learn_from is None else learn_from
    if chosen == NOTHING or (chosen is None and device.kind == "cpu"):
        return GivenHistory()
    if chosen is None and not replayed:
        return ShippedHistory(workload)
    return GivenHistory(load_dataset(chosen))
