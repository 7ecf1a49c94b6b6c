"""Latencies that a model predicts of kernels never measured, and those taken where nobody says which."""

import warnings
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.errors import CostModelError
from costmodel.kernels._sources import open_sources, source_for
from costmodel.learners._registry import DEFAULT_LEARNER
from costmodel.planner._latencies import (
    FirstKnown,
    KernelTable,
    Latencies,
    RecordedLatencies,
    RooflineLatencies,
)
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Device, part_of
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named
from costmodel.transfer.prediction._model import Model, load_model

# SMs that green contexts are granted by.
_STEP = 8
_NAMES = ("latency_s", "low_s", "high_s")


class PredictedLatencies(Latencies):
    """Predicted latencies of the kernels that a model ranks best, which a search would measure first.

    Of 50,000 configs of the design space, which needs TVM, those that the model ranks first on some numbers
    of SMs are built. This takes five seconds per workload and number of SMs. No prediction is faster than
    that of ``RooflineLatencies``.

    Args:
        model: A trained model, or its file.
        device: Device that the kernels would run on, or its name. Default: the only device that the model
            learned from.
        good_at: Numbers of SMs that kernels are chosen for. Default: a quarter of the device and all of it.
        pool: Number of kernels chosen per workload.
        seed: Seed of the draw.

    Raises:
        CostModelError: If the model cannot be read, there is no such device, or it has fewer SMs.
    """

    def __init__(
        self,
        model: Model | Path | str,
        device: Device | str | None = None,
        *,
        good_at: Sequence[int] = (),
        pool: int = 16,
        seed: int = 0,
    ) -> None:
        self.model = model if isinstance(model, Model) else load_model(model)
        known = self.model.metadata.devices
        self.device = device if isinstance(device, Device) else device_named(device, known)
        self.good_at = tuple(map(self.on_device, good_at)) or (max(1, self.device.sms // 4), self.device.sms)
        self.pool, self.seed = pool, seed
        self._tables: dict[str, KernelTable] = {}

    def of(self, device: Device | None) -> Latencies | None:
        """See ``Latencies``; devices that the model learned from are known."""
        if device is None or device.name == self.device.name:
            return self
        known = [each for each in self.model.metadata.devices if each.name == device.name]
        return PredictedLatencies(self.model, known[0], pool=self.pool, seed=self.seed) if known else None

    def kernels(self, workload: Workload) -> KernelTable | None:
        """Return the kernels of a workload, see ``Latencies``; None if the workload is not an operator."""
        if workload.is_foreign:
            return None
        if workload.name not in self._tables:
            self._tables[workload.name] = self._table(workload)
        return self._tables[workload.name]

    def _table(self, workload: Workload) -> KernelTable:
        sms = (*range(_STEP, self.device.sms, _STEP), self.device.sms)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnmeasuredDeviceWarning)
            ranking = self.model.predict(self._chosen(workload), sms=sms, device=self.device)
        if "latency_s" not in ranking:
            raise CostModelError(
                "The model must predict latencies, but predicts scores only. Train another learner."
            )
        pivots = {
            name: ranking.pivot(index="candidate_id", columns="sms", values=name)
            for name in _NAMES
            if name in ranking
        }
        roof = RooflineLatencies(self.device)
        least = np.array([roof.seconds(each, workload) for each in sms])
        seconds = {name: np.maximum(table.to_numpy(np.float64), least) for name, table in pivots.items()}
        ids = tuple(map(str, pivots["latency_s"].index))
        return KernelTable(
            ids, sms, seconds["latency_s"], "predicted", seconds.get("low_s"), seconds.get("high_s")
        )

    def _chosen(self, workload: Workload) -> list[Candidate]:
        from costmodel.search._propose import screen_candidates  # loads Optuna
        from costmodel.search.spaces._kernel import KernelSpace

        platforms = [part_of(self.device, each) for each in self.good_at]
        made = source_for(workload, "cuda", open_sources(("metaschedule",))).space(workload, "cuda")
        space = KernelSpace(made, *platforms).in_columns(self.model.metadata.columns)
        return screen_candidates(space, self.model.model, self.pool, self.seed)


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

    def __init__(self, dataset: Dataset, device: Device) -> None:
        self.dataset, self.device = dataset, device

    @cached_property
    def _predicted(self) -> PredictedLatencies:
        from costmodel.tuning._training import train

        return PredictedLatencies(train(self.dataset, DEFAULT_LEARNER), self.device)

    def of(self, device: Device | None) -> Latencies | None:
        """See ``Latencies``; devices of the dataset are known."""
        if device is None or device.name == self.device.name:
            return self
        return _LearntLater(self.dataset, device) if device.name in self.dataset.devices else None

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``."""
        if workload.is_foreign:
            return None
        return self._predicted.kernels(workload)
