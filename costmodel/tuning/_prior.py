"""What a user says that a search may know at its start."""

from dataclasses import dataclass
from pathlib import Path

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike
from costmodel.errors import CostModelError
from costmodel.reading import is_file
from costmodel.transfer.prediction._model import Model
from costmodel.tuning._knowledge import NOTHING


@dataclass(frozen=True)
class Prior:
    """What a search knows at its start, before the defaults are filled in.

    Attributes:
        model: Trained model, or its file, to use instead of learning from a history.
        learn_from: The history: a dataset, its name or path, or ``"nothing"``. None, in a replay, for the
            replayed dataset; on a GPU, for the shipped dataset of the kernels' family, or its model from
            ``pretrain`` if the dataset has no measurements of the workload itself; on a CPU, for nothing.
        start_from: On a device, the dataset whose fastest kernels of this workload on that device are
            measured first. None for the history.
        learner: Name of the learner (see ``costmodel.transfer.make_model``). None for ``kernel-ridge`` for
            MetaSchedule's kernels, ``stack`` for other sources, ``stack-above-analytic`` for families whose
            speed depends on their data, and ``source-mixture`` for kernels of another suite, of which only
            their latencies elsewhere are known. If the history has kernels of this workload on other SMs or
            devices, ``known-elsewhere``; for sources other than MetaSchedule, only if it has at least half of
            them.
        keep_twins_apart: In a replay, also learn this workload from near-twins of the device.

    Raises:
        CostModelError: Both a model and a history are given.
    """

    model: Model | Path | str | None = None
    learn_from: DatasetLike | None = None
    start_from: DatasetLike | None = None
    learner: str | None = None
    keep_twins_apart: bool = False

    def __post_init__(self) -> None:
        """Check that knowledge comes from one place."""
        if self.model is not None and self.learn_from is not None:
            raise CostModelError("A model or a history must be given, but got both. Leave one of them out.")

    @classmethod
    def of(cls, prior: "Prior | Model | DatasetLike | None") -> "Prior":
        """Make a prior of what ``tune`` takes: ``"default"``, a model or its file, a dataset, or None.

        None knows nothing. A path of a file is a model, any other text a dataset.
        """
        if isinstance(prior, Prior):
            return prior
        if prior is None:
            return cls(learn_from=NOTHING)
        if isinstance(prior, str) and prior == "default":
            return cls()
        if isinstance(prior, Model) or (isinstance(prior, Path | str) and is_file(prior)):
            return cls(model=prior)
        if isinstance(prior, Dataset | Path | str):
            return cls(learn_from=prior)
        raise CostModelError(
            f"A prior must be a model or its file, a dataset, a Prior, 'default' or None, but got {prior!r}."
        )
