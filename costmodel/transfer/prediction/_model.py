"""A fitted model with its provenance, just trained or loaded from a file."""

import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.arguments import check_budgets, check_path, check_seed, check_whole
from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.errors import CostModelError
from costmodel.features._extract import extract
from costmodel.features._table import in_columns
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device, Platform, part_of
from costmodel.records._workload import Workload
from costmodel.report._page import facts_html
from costmodel.transfer._base import StorableModel, TransferModel
from costmodel.transfer._store import MOST_BYTES, ModelMetadata, StoredModel, read_model, write_model
from costmodel.transfer.prediction._candidates import Kernels, kernels_to_predict
from costmodel.transfer.prediction._devices import (
    NEVER_MEASURED,
    UnmeasuredDeviceWarning,
    device_named,
    refusals,
)
from costmodel.transfer.prediction._physics import (
    SECONDS,
    Predictions,
    base_of,
    carried_predictions,
    least_latencies,
    real_part,
    without_rises,
)

if TYPE_CHECKING:
    import pandas as pd
_SHOWN_METRICS = ("score_at_1", "score_at_10", "latency_error", "coverage")


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A fitted model with its provenance.

    Attributes:
        model: The model on arrays, with ``predict(X)`` and ``adapt(X, y)``.
        metadata: What the model learned from, and its accuracy on held-out tasks.
        held_out_tasks: Results on the held-out tasks, one row per task, as in ``EvaluationReport.tasks``.
            None if no tasks were held out, or if the model was loaded from a file.
        attachments: Further arrays stored in the model file, by name.
        path: The file from which the model was loaded; None if it was just trained.
    """

    model: TransferModel
    metadata: ModelMetadata = field(default_factory=ModelMetadata)
    held_out_tasks: "pd.DataFrame | None" = None
    attachments: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None

    def predict(  # noqa: PLR0913 (settings, all with defaults)
        self,
        workload: Workload | str | Sequence[Candidate],
        *,
        sms: int | Iterable[int] | None = None,
        device: Device | str | None = None,
        kernels: Kernels | None = None,
        n: int = 64,
        seed: int = 0,
    ) -> "pd.DataFrame":
        """Rank kernels without measuring any, on a platform that may never have been measured.

        Args:
            workload: The workload that the kernels compute, or the kernels themselves.
            sms: Number of SMs available to the kernels, or several such numbers. Default: the whole device.
            device: The device to predict for, or its name as listed by ``costmodel devices list``, or a
                device made by ``hypothetical``. Default: the device that the model learned from, if there is
                only one.
            kernels: The kernels to rank: those of the workload in a dataset (given as an object, name or
                path), in a ``.jsonl`` file with one candidate per line, or among candidates. Default: the
                shipped dataset; if it has no kernels of the workload, configs are drawn from the first source
                that makes it (``costmodel kernels list``; for MetaSchedule this needs TVM).
            n: Number of configs to draw.
            seed: Seed of the draw.

        Returns:
            One row per kernel and number of SMs, the best first for each number. The columns are ``sms``,
            ``candidate_id``, ``config``, ``rank_score`` (what the order is by, higher is better),
            ``latency_s``, ``low_s`` and ``high_s`` (its prediction interval), ``unfamiliarity`` (above 1, the
            model guarantees nothing) and ``note``. There is no interval for an unseen device if all devices
            learned from have one architecture. A note says why a kernel cannot run on the device, that the
            device was never measured, why there is no interval, that a prediction is slower than on a device
            that is better in nothing, or that nothing describes what a call of the library computes. Columns
            without any value are left out. Kernels that cannot run have no prediction and come last. Names of
            the platforms are in ``attrs["platforms"]``.

        Raises:
            CostModelError: There are no such kernels or devices, no kernel can run on the device, or the
                model has other feature columns.

        Warns:
            UnmeasuredDeviceWarning: The device is real, but the model has no measurements of it. Predicted
                latencies there are carried over from the nearest device that it has, as far as there is one,
                and never rise with the number of SMs.
        """
        check_seed(seed)
        check_whole("n", n, 1)
        learned = self.metadata.devices
        target = device if isinstance(device, Device) else device_named(device, learned)
        platforms = [part_of(target, each) for each in check_budgets(sms) or (None,)]
        candidates = kernels_to_predict(workload, target, kernels, n, seed)
        refused = refusals(candidates, target, learned)
        if all(refused):
            raise CostModelError(f"None of {len(candidates)} kernels can run: {refused[0]}.")
        if not (self.has_measured(target) or isinstance(target, HypotheticalDevice)):
            message = f"{target.name}: {NEVER_MEASURED}. The model learned from {_listed(learned)}."
            warnings.warn(message, UnmeasuredDeviceWarning, stacklevel=2)
        from costmodel.transfer.prediction._ranking import ranked_kernels  # loads pandas

        return ranked_kernels(self, candidates, refused, platforms)

    def has_measured(self, device: Device) -> bool:
        """Return whether the model learned from measurements of this device."""
        return device.name in {each.name for each in self.metadata.devices}

    def predictions(self, X: FloatArray) -> "dict[str, FloatArray]":
        """Return ``(n,)`` values for ``(n, d)`` features, by column name of ``predict``.

        Columns that the model cannot fill are left out. These are the model's own predictions; for devices
        that it has no measurements of, see ``predictions_of``.
        """
        tells, promises = (getattr(self.model, name, None) for name in ("unfamiliarity", "promises"))
        with np.errstate(over="ignore", invalid="ignore"):  # the values are looked at below
            found = self.model.predict(X)
            unfamiliarity = None if tells is None else tells(X)
        promised = np.ones(len(X), dtype=np.bool_) if promises is None else promises(X)
        values = {
            "rank_score": found.score,
            "latency_s": found.latency_s,
            "low_s": None if found.low_s is None else np.where(promised, found.low_s, np.nan),
            "high_s": None if found.high_s is None else np.where(promised, found.high_s, np.nan),
            "unfamiliarity": unfamiliarity,
        }
        self._require_finite(found.score, found.latency_s, found.low_s, found.high_s, unfamiliarity)
        return {name: each for name, each in values.items() if each is not None}

    def predictions_of(
        self, candidates: Sequence[Candidate], platforms: Sequence[Platform]
    ) -> "dict[str, FloatArray]":
        """Return ``(n,)`` values of kernels, by name as in ``predict``, each on the platform at its position.

        The prediction of one kernel does not depend on the others. No latency, and no end of an interval, is
        below what the hardware allows (see ``least_latency_s``); scores are the model's own. On a device that
        the model has no measurements of, latencies are carried over from the device that a hypothetical one
        is based on, or from the nearest that was measured (see ``base_of`` and ``carried_predictions``). With
        none of its kind, they are the model's own, but never rise with the number of SMs (see
        ``without_rises``). Intervals on real devices are as wide as the model says.

        Raises:
            CostModelError: The model has other feature columns than these kernels, or a device is
                hypothetical and the model predicts no latencies.
        """
        found = self._said(candidates, [real_part(platform) for platform in platforms])
        devices = dict.fromkeys(platform.device for platform in platforms)
        for device in (each for each in devices if each.sms and not self.has_measured(each)):
            at = [i for i, platform in enumerate(platforms) if platform.device == device]
            own = {name: values[at] for name, values in found.items()}
            held = self._held_by_physics(own, [candidates[i] for i in at], [platforms[i] for i in at])
            for name, values in held.items():
                found[name][at] = values
        least = least_latencies(candidates, platforms)
        return found | {name: np.maximum(found[name], least) for name in SECONDS if name in found}

    def _held_by_physics(
        self, own: Predictions, candidates: Sequence[Candidate], platforms: Sequence[Platform]
    ) -> Predictions:
        """Latencies on parts of a device that was never measured, by the model's own there."""
        device = platforms[0].device
        is_made_up = isinstance(device, HypotheticalDevice)
        if "latency_s" not in own and not is_made_up:
            return own
        base = base_of(device, self.metadata.devices)
        if base is None:
            return without_rises(self._said, candidates, platforms)
        if is_made_up:
            return carried_predictions(self.predictions_of, candidates, platforms, base)
        carried = carried_predictions(self._said, candidates, platforms, base)
        widths = {name: own[name] / own["latency_s"] for name in SECONDS if name in own}
        return carried | {name: carried["latency_s"] * width for name, width in widths.items()}

    def features(self, candidates: Sequence[Candidate], platforms: Sequence[Platform]) -> FloatArray:
        """Return the model's ``(n, d)`` input features for kernels, each on the platform at its position.

        Raises:
            CostModelError: The model has other feature columns than these kernels: it learned from no kernels
                of this kind, or was trained by another version.
        """
        return in_columns(extract(candidates, platforms), self.metadata.columns)

    def require_columns(self, columns: Sequence[Column]) -> None:
        """Check that the model was trained on these feature columns.

        Raises:
            CostModelError: It was trained on others.
        """
        if self.metadata.columns != tuple(column.name for column in columns):
            raise CostModelError(
                f"{self.path or 'The model'} must have the {len(columns)} feature columns that this version "
                "of costmodel makes for these kernels, but it has others. Train it again on such kernels, "
                "with `costmodel train`."
            )

    def save(self, path: Path | str) -> None:
        """Write the model to one file, without pickle. An existing file is replaced atomically.

        Raises:
            CostModelError: A part of the model is of an unregistered class, or the file cannot be written.
        """
        if not isinstance(self.model, StorableModel):
            raise CostModelError(
                "A model to save must be a StorableModel of costmodel.transfer, but got "
                f"{type(self.model).__name__}."
            )
        write_model(StoredModel(self.model, self.metadata, self.attachments), check_path("path", path))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"Model({facts})"

    def _repr_html_(self) -> str:
        return facts_html("Model", self._facts())

    def _said(
        self, candidates: Sequence[Candidate], platforms: Sequence[Platform]
    ) -> "dict[str, FloatArray]":
        return self.predictions(self.features(candidates, platforms))

    def _require_finite(self, *values: FloatArray | None) -> None:
        strange = [~np.isfinite(each) for each in values if each is not None]
        if np.any(strange):
            raise CostModelError(
                f"{self.path or 'The model'} must predict finite numbers, but for "
                f"{np.any(strange, axis=0).sum()} of {strange[0].size} kernels it does not: its file was "
                "altered, or it learned from damaged measurements. Train it again."
            )

    def _facts(self) -> dict[str, str]:
        """Return the facts that represent a model in a few lines."""
        about = self.metadata
        metrics = {name: f"{value:.3f}" for name, value in about.metrics.items() if name in _SHOWN_METRICS}
        return {
            "learner": about.learner or type(self.model).__name__,
            "measurements": f"{about.rows:,}",
            "workloads": f"{len(about.workloads)}",
            "devices": _listed(about.devices),
            **metrics,
        }


def load_model(path: Path | str, *, most_bytes: int = MOST_BYTES) -> Model:
    """Read a model written by ``Model.save`` or ``costmodel train``, without running code from the file.

    Args:
        path: The model file.
        most_bytes: Maximum size of the unpacked model, in bytes.

    Raises:
        CostModelError: The file does not exist, is damaged or too large, is no model of a supported version,
            or needs a learner that is not installed.
    """
    path = check_path("path of a model", path)
    stored = read_model(path, most_bytes)
    return Model(stored.model, stored.metadata, attachments=stored.attachments, path=path)


def _listed(devices: Sequence[Device]) -> str:
    return ", ".join(device.name for device in devices) or "no device"
