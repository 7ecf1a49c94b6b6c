"""The latencies that are taken where nobody says which."""

from functools import cached_property
from pathlib import Path

from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.learners._registry import DEFAULT_LEARNER
from costmodel.planner.latencies._base import FirstKnown, KernelTable, Latencies
from costmodel.planner.latencies._predicted import PredictedLatencies
from costmodel.planner.latencies._recorded import RecordedLatencies
from costmodel.planner.latencies._roofline import RooflineLatencies
from costmodel.records._platform import Device
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._model import Model

# The dataset that `tune` measures of most workloads.
_SHIPPED = "sm-budgets"


def open_latencies(
    learn_from: DatasetLike | None = None,
    *,
    model: Model | Path | str | None = None,
    device: str | None = None,
) -> Latencies:
    """Return recorded latencies if a dataset has the workload, else predicted ones, else those of a roofline.

    Args:
        learn_from: The dataset. Default: ``sm-budgets``.
        model: The model. Default: a model trained on the dataset when it is first needed, which takes 20
            seconds.
        device: Name of a measured device, or a part of the name. Default: the first device by name.

    Raises:
        CostModelError: If there is no such dataset, device or model.
    """
    data = load_dataset(_SHIPPED if learn_from is None else learn_from)
    recorded = RecordedLatencies(data, device)
    predicted = PredictedLatencies(model, recorded.device) if model else _LearntLater(data, recorded.device)
    return FirstKnown(recorded, predicted, RooflineLatencies(recorded.device))


class _LearntLater(Latencies):
    """Predictions of a model that is trained for the first workload that they are needed of."""

    def __init__(self, dataset: DatasetLike, device: Device) -> None:
        self.dataset, self.device = dataset, device

    @cached_property
    def _predicted(self) -> PredictedLatencies:
        from costmodel.tuning._training import train

        return PredictedLatencies(train(self.dataset, DEFAULT_LEARNER), self.device)

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``."""
        if workload.is_foreign:
            return None
        return self._predicted.kernels(workload)
