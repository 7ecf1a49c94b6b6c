"""What a search is told before it measures anything: by a model, by a history, or by what ships."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Device, Platform
from costmodel.records._workload import Workload
from costmodel.search.spaces._base import SearchSpace
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._history import History
from costmodel.tuning._knowledge import Knowledge, best_recorded, from_model, known_from


@dataclass(frozen=True)
class PriorKnowledge:
    """What is known of a workload's kernels.

    Attributes:
        workload: What is tuned.
        device: Where.
        replayed: Whether measurements are replayed: what all but tells their answer is left out.
        model: A trained model, or its file; None to learn from the history.
        history: What was measured, see ``open_history``.
        learner: What learns from it; None for what suits the kernels, see ``known_from``.
        seed: Seed of its random choices.
        keep_twins_apart: In a replay, whether near-twins of the device are learned from.
        start_from: Dataset whose fastest kernels are measured first on a device; the history where None.
    """

    workload: Workload
    device: Device
    replayed: bool
    model: Model | Path | str | None
    history: History
    learner: str | None
    seed: int
    keep_twins_apart: bool
    start_from: DatasetLike | None

    def known_of(self, space: SearchSpace, *, is_only: bool) -> Knowledge:
        """What is known of the kernels of a space.

        Args:
            space: The space.
            is_only: Whether no other is searched: then a model that is given must know its kernels.
        """
        if self.model is not None:
            seen = (self.workload.name, self.device.name) if self.replayed else None
            return from_model(self.model, "" if is_only else space.family, seen)
        ready = self.history.model(space.family) if self.learner is None else None
        if ready is not None:
            return from_model(ready, "", None)
        return known_from(
            self.history.of(space.family),
            self.workload,
            self.device.name,
            space.family,
            learner=self.learner,
            seed=self.seed,
            keep_twins_apart=self.keep_twins_apart if self.replayed else None,
            kernels=space.size,
        )

    def best_recorded(
        self, spaces: Collection[SearchSpace], platforms: Sequence[Platform]
    ) -> list[Candidate]:
        """Kernels that were fastest on these platforms when they were measured; none in a replay."""
        if self.replayed:
            return []
        datasets = self.history.recorded([space.family for space in spaces])
        if self.start_from is not None:
            datasets = [load_dataset(self.start_from)]
        return [kernel for each in datasets for kernel in best_recorded(each, self.workload, platforms)]
