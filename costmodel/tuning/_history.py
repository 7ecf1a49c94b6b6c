"""What a search is told before it measures anything: by a model, a dataset that was named, or what ships."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Device, Platform
from costmodel.records._workload import Workload
from costmodel.search.spaces._base import SearchSpace
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.tuning._knowledge import NOTHING, Knowledge, best_recorded, from_model, known_from
from costmodel.tuning._request import Prior
from costmodel.tuning._shipped import ShippedDataset, shipped_for


class FamilyHistory(Protocol):
    """What is known of the kernels of each family, see ``Candidate.family``."""

    def of(self, family: str) -> Dataset | None:
        """The measurements to learn from; None where there are none."""
        ...

    def model(self, family: str) -> Model | None:
        """A model that has learned from them; None where one must be trained."""
        ...

    def compiled_model(self, family: str) -> Model | None:
        """A model that has learned what a compiler makes of them; None where there is none."""
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

    def compiled_model(self, family: str) -> Model | None:
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

    def compiled_model(self, family: str) -> Model | None:
        """The model of this family's compiled kernels; None where the workload itself was measured."""
        found = shipped_for(family, self.workload)
        return None if found is None or self._is_in(found) else found.compiled_model()

    def recorded(self, families: Sequence[str]) -> list[Dataset]:
        """The datasets of these families that have the workload."""
        found = {each.name: each for family in families if (each := shipped_for(family, self.workload))}
        return [each.load() for each in found.values() if self._is_in(each)]

    def _is_in(self, dataset: ShippedDataset) -> bool:
        return any(self.workload.name in names for names in dataset.families.values())


def open_history(
    prior: Prior,
    replay: DatasetLike | None,
    workload: Workload,
    device: Device,
    *,
    replayed: bool,
) -> FamilyHistory:
    """What to learn from: unless told, what is replayed, on a GPU what ships, on a CPU nothing.

    Args:
        prior: What is known; a model leaves nothing to learn.
        replay: What is replayed; None for the default dataset.
        workload: What is tuned.
        device: Where.
        replayed: Whether measurements are replayed.

    Raises:
        CostModelError: A dataset cannot be found.
    """
    if prior.model is not None:
        return GivenHistory()
    chosen = replay if prior.learn_from is None else prior.learn_from
    if chosen == NOTHING or (chosen is None and device.kind == "cpu"):
        return GivenHistory()
    if chosen is None and not replayed:
        return ShippedHistory(workload)
    return GivenHistory(load_dataset(chosen))


@dataclass(frozen=True)
class PriorKnowledge:
    """What is known of a workload's kernels.

    Attributes:
        prior: What was asked for.
        workload: What is tuned.
        device: Where.
        replayed: Whether measurements are replayed: what all but tells their answer is left out.
        history: What was measured, see ``open_history``.
        seed: Seed of the learner's random choices.
        on_whole: What was measured of the workload on the whole device, see ``Knowledge``.
    """

    prior: Prior
    workload: Workload
    device: Device
    replayed: bool
    history: FamilyHistory
    seed: int
    on_whole: Sequence[Measurement] = ()

    def known_of(self, space: SearchSpace, *, is_only: bool, is_staged: bool) -> Knowledge:
        """Return what is known of the kernels of a space.

        Args:
            space: The space.
            is_only: Whether no other is searched: then a model that is given must know its kernels.
            is_staged: Whether more is compiled than measured; if not, no model of that is read.
        """
        compiled = self._known_of_compiled(space) if is_staged else None
        return replace(self._known_of(space, is_only), on_whole=self.on_whole, compiled=compiled)

    def _known_of_compiled(self, space: SearchSpace) -> Knowledge | None:
        """What is known of compiled kernels of a space, if it is of a device with such machine code."""
        model = self.prior.compiled
        if model is None and self.prior.model is None and self.prior.learner is None:
            model = self.history.compiled_model(space.family)
        if model is None:
            return None
        loaded = model if isinstance(model, Model) else load_model(model)
        if self.device.architecture not in {each.architecture for each in loaded.metadata.devices}:
            return None
        known = from_model(loaded, space.family, self._replayed)
        return known if known.model is not None else None

    @property
    def _replayed(self) -> tuple[str, str] | None:
        """Names of the replayed workload and device; None if kernels are measured."""
        return (self.workload.name, self.device.name) if self.replayed else None

    def _known_of(self, space: SearchSpace, is_only: bool) -> Knowledge:
        if self.prior.model is not None:
            return from_model(self.prior.model, "" if is_only else space.family, self._replayed)
        ready = self.history.model(space.family) if self.prior.learner is None else None
        if ready is not None:
            return from_model(ready, "", None)
        return known_from(
            self.history.of(space.family),
            self.workload,
            self.device.name,
            space.family,
            learner=self.prior.learner,
            seed=self.seed,
            keep_twins_apart=self.prior.keep_twins_apart if self.replayed else None,
            n_kernels=space.size,
        )

    def best_recorded(
        self, spaces: Collection[SearchSpace], platforms: Sequence[Platform]
    ) -> list[Candidate]:
        """Return kernels that were fastest on these platforms when they were measured; none in a replay."""
        if self.replayed:
            return []
        datasets = self.history.recorded([space.family for space in spaces])
        if self.prior.start_from is not None:
            datasets = [load_dataset(self.prior.start_from)]
        return [kernel for each in datasets for kernel in best_recorded(each, self.workload, platforms)]
