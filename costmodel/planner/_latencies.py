"""Latencies of kernels of a workload by SMs: the interface, those recorded, predicted, or of a roofline."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.errors import CostModelError
from costmodel.kernels._sources import open_sources, source_for
from costmodel.learners._registry import DEFAULT_LEARNER
from costmodel.records._candidate import Candidate
from costmodel.records._device_table import find_among
from costmodel.records._peak_rates import least_latency_s
from costmodel.records._platform import Device, check_sms, part_of
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named
from costmodel.transfer.prediction._model import Model, load_model


@dataclass(frozen=True)
class KernelLatency:
    """What one kernel takes on one number of SMs.

    Attributes:
        candidate_id: The kernel.
        latency_s: Seconds.
        low_s: Lower end of the 90 % interval of a prediction; the latency where there is none.
        high_s: Upper end.
    """

    candidate_id: str
    latency_s: float
    low_s: float
    high_s: float


@dataclass(frozen=True)
class KernelTable:
    """Latencies of the kernels of one workload by SM budget of one device; arrays are ``(kernels, budgets)``.

    Attributes:
        candidate_ids: Ids of the kernels.
        sms: ``(budgets,)`` SM budgets, ascending.
        latency_s: Latencies in seconds; NaN if unknown, inf if the kernel failed.
        origin: ``recorded`` or ``predicted``.
        low_s: Lower ends of 90% intervals, in seconds; None if there are no intervals.
        high_s: Upper ends of the intervals, in seconds.
    """

    candidate_ids: tuple[str, ...]
    sms: tuple[int, ...]
    latency_s: FloatArray
    origin: str
    low_s: FloatArray | None = None
    high_s: FloatArray | None = None

    def best(self, sms: int, chosen_for: int | None = None) -> KernelLatency | None:
        """Return the fastest kernel on this number of SMs, or the kernel that is fastest on another number.

        Between two numbers of SMs, the log of a latency is interpolated linearly in the log of the SMs.

        Args:
            sms: Number of SMs that the kernel runs on.
            chosen_for: Number of SMs for which the fastest kernel is chosen, among the kernels known on both.
                Default: ``sms``.

        Returns:
            The kernel with its latency; None if no kernel is known on this number of SMs.
        """
        here = between_sms(self.latency_s, self.sms, sms)
        there = here if chosen_for is None else between_sms(self.latency_s, self.sms, chosen_for)
        known = np.isfinite(here) & np.isfinite(there)
        if not known.any():
            return None
        kernel = int(np.argmin(np.where(known, there, np.inf)))
        latency = float(here[kernel])
        low, high = (
            float(between_sms(each, self.sms, sms)[kernel]) if each is not None else latency
            for each in (self.low_s, self.high_s)
        )
        return KernelLatency(self.candidate_ids[kernel], latency, low, high)


class Latencies(ABC):
    """Source of kernel latencies.

    Attributes:
        device: Device that the kernels run on.
    """

    device: Device

    @abstractmethod
    def kernels(self, workload: Workload) -> KernelTable | None:
        """Return the kernels of a workload; None if none is known."""

    def of(self, device: Device | None) -> "Latencies | None":
        """Return the latencies on the device of a graph, or None if none is known of it.

        Args:
            device: The device; None if nobody knows, and those of this source's own device are meant.
        """
        return self if device is None or device.name == self.device.name else None

    def on_device(self, sms: int | None) -> int:
        """Return this number of SMs, or all SMs of the device if None.

        Raises:
            CostModelError: If the device has fewer SMs.
        """
        return check_sms(self.device, self.device.sms if sms is None else sms)


class FirstKnown(Latencies):
    """Latencies from the first of several sources that knows a workload, such as recorded, then predicted."""

    def __init__(self, *sources: Latencies) -> None:
        self.sources = sources
        self.device = sources[0].device

    def of(self, device: Device | None) -> Latencies | None:
        """See ``Latencies``; a roofline alone is not enough."""
        found = [each for source in self.sources if (each := source.of(device)) is not None]
        is_known = any(not isinstance(each, RooflineLatencies) for each in found)
        return FirstKnown(*found) if is_known else None

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``."""
        found = (source.kernels(workload) for source in self.sources)
        return next((table for table in found if table is not None), None)


def between_sms(table: FloatArray, sms: tuple[int, ...], asked: int) -> FloatArray:
    """Interpolate ``(kernels,)`` seconds on so many SMs: their log is linear in the log of the SMs.

    Args:
        table: ``(kernels, numbers of SMs)`` seconds.
        sms: The numbers of SMs, ascending.
        asked: Number of SMs; outside of those known the result is NaN.
    """
    if asked in sms:
        column: FloatArray = table[:, sms.index(asked)]
        return column
    right = int(np.searchsorted(sms, asked))
    if right in (0, len(sms)):
        return np.full(len(table), np.nan)
    near, far = np.log(table[:, right - 1]), np.log(table[:, right])
    share = np.log(asked / sms[right - 1]) / np.log(sms[right] / sms[right - 1])
    return np.asarray(np.exp((1.0 - share) * near + share * far))


class RecordedLatencies(Latencies):
    """Latencies measured on one device of a dataset.

    Args:
        dataset: Dataset, or its name or path. Default: the first shipped dataset.
        device: Name of one of its devices, of which model and number are enough (``h100``). Default: the
            first by name.

    Raises:
        CostModelError: If there is no such dataset or device.
    """

    def __init__(self, dataset: DatasetLike | None = None, device: str | None = None) -> None:
        self.dataset: Dataset = load_dataset(dataset)
        known = self.dataset.devices
        what = f"one of those measured ({', '.join(known)})"
        name = known[0] if device is None else find_among(device, known, what)
        self.device = next(each.device for each in self.dataset.platforms if each.device.name == name)
        self._tables: dict[str, KernelTable | None] = {}

    def of(self, device: Device | None) -> Latencies | None:
        """See ``Latencies``; any device of the dataset is known."""
        if device is not None and device.name != self.device.name and device.name in self.dataset.devices:
            return RecordedLatencies(self.dataset, device.name)
        return super().of(device)

    def kernels(self, workload: Workload) -> KernelTable | None:
        """See ``Latencies``."""
        if workload.name not in self._tables:
            self._tables[workload.name] = self._table(workload.name)
        return self._tables[workload.name]

    @cached_property
    def _rows(self) -> pd.DataFrame:
        rows = self.dataset.rows
        return rows[rows["device"] == self.device.name]

    def _table(self, name: str) -> KernelTable | None:
        rows = self._rows[self._rows["workload"] == name]
        if rows.empty:
            return None
        table = rows.pivot_table("latency_s", "candidate", "sms_granted", "min", dropna=False)
        ids = tuple(self.dataset.candidates[i].candidate_id for i in table.index)
        sms = tuple(int(each) for each in table.columns)
        return KernelTable(ids, sms, table.to_numpy(dtype=np.float64), "recorded")


# By the best recorded norms and softmaxes of datasets/sm-budgets on 8 to 132 SMs: the smallest take 1.7 us.
# rms_norm-m512-n4096, which moves 17 MB, takes 25.3 us on 8 SMs and 7.5 us on 32, softmax-m6144-n512, which
# moves 25 MB, 5.4 us on all of an H200. No best kernel there is faster than these make it.
_START_S = 1.5e-6
_BYTES_PER_SM_S = 88e9
L2_BYTES_S = 6.4e12


class RooflineLatencies(Latencies):
    """Latencies from a roofline: a start-up time, and the longer of data movement and arithmetic.

    This is a lower bound for a kernel, and about the latency of one that only moves data.

    Args:
        device: The device.
    """

    def __init__(self, device: Device) -> None:
        self.device = device

    def of(self, device: Device | None) -> Latencies | None:
        """See ``Latencies``; any device has a roofline."""
        return self if device is None else RooflineLatencies(device)

    def kernels(self, workload: Workload) -> KernelTable | None:
        """Return the kernels of a workload, see ``Latencies``; None if only the workload's name is known."""
        if not workload.min_bytes:
            return None
        sms = tuple(range(1, self.device.sms + 1))
        seconds = [self.seconds(each, workload) for each in sms]
        return KernelTable(("roofline",), sms, np.array([seconds]), "estimated")

    def seconds(self, sms: int, workload: Workload) -> float:
        """Return the seconds that a kernel of a workload takes on this number of SMs."""
        least_s = least_latency_s(workload, self.device, sms)
        return max(self.moving_s(sms, workload.min_bytes), _START_S + least_s)

    def moving_s(self, sms: int, moved_bytes: int) -> float:
        """Return the seconds for moving these bytes on this number of SMs, through L2 if they fit there."""
        is_cached = moved_bytes <= self.device.l2_bytes
        most = L2_BYTES_S if is_cached else self.device.bandwidth_gb_s * 1e9 or L2_BYTES_S
        return _START_S + moved_bytes / min(sms * _BYTES_PER_SM_S, most)


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
        device: Name of a measured device, of which model and number are enough (``h100``). Default: the first
            by name.

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
