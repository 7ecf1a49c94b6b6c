"""A model with where it comes from: one just trained, or one out of a file."""

import html
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.errors import CostModelError
from costmodel.features import extract, in_columns
from costmodel.records import Candidate, Device, HypotheticalDevice, Platform, Workload, part_of
from costmodel.transfer._base import StorableModel, TransferModel
from costmodel.transfer.prediction._candidates import Kernels, kernels_to_predict
from costmodel.transfer.prediction._devices import UnmeasuredDeviceWarning, device_named, refusals
from costmodel.transfer.prediction._hypothetical import carried_predictions, known_part
from costmodel.transfer.prediction._monotone import without_rises
from costmodel.transfer.prediction._notes import NEVER_MEASURED
from costmodel.transfer.prediction._ranking import ranked_kernels
from costmodel.transfer.storage import MOST_BYTES, ModelMetadata, StoredModel, read_model, write_model

if TYPE_CHECKING:
    import pandas as pd
_SHOWN_METRICS = ("score_at_1", "score_at_10", "latency_error", "coverage")


@dataclass(frozen=True, repr=False, eq=False)
class Model:
    """A fitted model, and where it comes from.

    Attributes:
        model: The model as arrays see it, with ``predict(X)`` and ``adapt(X, y)``.
        metadata: What it learned from and how good it is.
        held_out_tasks: Results on the tasks held out, one row a task, as in ``Report.tasks``. Of a model out
            of a file, and of one that nothing was held out of, None.
        attachments: Arrays that a file keeps beside it, by name.
        path: The file that it is from; None for one that was just trained.
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
            workload: What the kernels compute, or the kernels themselves.
            sms: SMs that they will have, or several such numbers; the whole device unless given.
            device: Where they would run, or its name as ``costmodel devices list`` shows it, or one that
                ``hypothetical`` made up. Unless given, the device that was learned from, if it is one.
            kernels: A dataset whose kernels of the workload are ranked, its name or its path, or a ``.jsonl``
                file with one candidate a line. Unless given, the dataset that ships; where that has none of
                the workload, configs are drawn, for which TVM is needed.
            n: How many are drawn.
            seed: Seed of the draw.

        Returns:
            One row for each kernel and number of SMs, the best first for each number: ``sms``,
            ``candidate_id``, ``config``, ``score`` (higher is better), ``latency_s``, its interval from
            ``low_s`` to ``high_s`` (none on an unseen device, where all that was learned from are of one
            architecture), ``unfamiliarity`` (above 1 nothing is promised) and ``note`` (why a kernel cannot
            run there; that the device was never measured, why there is no interval, and that a prediction is
            slower than on a device of which nothing is better). Columns without any value are left out, and
            kernels that cannot run have no prediction and stand last. Names of the platforms are in
            ``attrs["platforms"]``.

        Raises:
            CostModelError: There are no such kernels or devices, none of them can run there, or the model is
                of other feature columns.

        Warns:
            UnmeasuredDeviceWarning: The model has no measurement of this device, which is a real one.
                Latencies there do not rise with SMs.
        """
        learned = self.metadata.devices
        target = device if isinstance(device, Device) else device_named(device, learned)
        platforms = [
            part_of(target, each) for each in ([sms] if sms is None or isinstance(sms, int) else sms)
        ]
        candidates = kernels_to_predict(workload, target, kernels, n, seed)
        refused = refusals(candidates, target, learned)
        if all(refused):
            raise CostModelError(f"None of {len(candidates)} kernels can run: {refused[0]}.")
        if not (self.has_measured(target) or isinstance(target, HypotheticalDevice)):
            message = f"{target.name}: {NEVER_MEASURED}. The model learned from {_listed(learned)}."
            warnings.warn(message, UnmeasuredDeviceWarning, stacklevel=2)
        return ranked_kernels(self, candidates, refused, platforms)

    def has_measured(self, device: Device) -> bool:
        """Whether measurements of this device are among what was learned from."""
        return device.name in {each.name for each in self.metadata.devices}

    def predictions(self, X: FloatArray) -> "dict[str, FloatArray]":
        """``(n,)`` values for ``(n, d)`` features, by name: those columns of ``predict`` that are known.

        These are the model's own: of a device that it has no measurement of, see ``predictions_of``.
        """
        found = self.model.predict(X)
        tells, promises = (getattr(self.model, name, None) for name in ("unfamiliarity", "promises"))
        promised = np.ones(len(X), dtype=np.bool_) if promises is None else promises(X)
        values = {
            "score": found.score,
            "latency_s": found.latency_s,
            "low_s": None if found.low_s is None else np.where(promised, found.low_s, np.nan),
            "high_s": None if found.high_s is None else np.where(promised, found.high_s, np.nan),
            "unfamiliarity": None if tells is None else tells(X),
        }
        return {name: each for name, each in values.items() if each is not None}

    def predictions_of(
        self, candidates: Sequence[Candidate], platforms: Sequence[Platform]
    ) -> "dict[str, FloatArray]":
        """``(n,)`` values of kernels, each on the platform at its place, by name as in ``predict``.

        What is said of one does not depend on the others. On a device that the model has no measurement of,
        latencies do not rise with SMs, see ``without_rises``; on a hypothetical one they are carried over
        from the device that it was made of, see ``carried_predictions``.

        Raises:
            CostModelError: The model is of other feature columns than these kernels have, or a device is
                hypothetical and the model predicts no latencies.
        """
        found = self._said(candidates, [known_part(platform) for platform in platforms])
        devices = dict.fromkeys(platform.device for platform in platforms)
        for device in (each for each in devices if each.sms and not self.has_measured(each)):
            at = [i for i, platform in enumerate(platforms) if platform.device == device]
            kernels, parts = [candidates[i] for i in at], [platforms[i] for i in at]
            if isinstance(device, HypotheticalDevice):
                held = carried_predictions(self.predictions_of, kernels, parts)
            elif "latency_s" in found:
                held = without_rises(self._said, kernels, parts)
            else:
                continue
            for name, values in held.items():
                found[name][at] = values
        return found

    def features(self, candidates: Sequence[Candidate], platforms: Sequence[Platform]) -> FloatArray:
        """``(n, d)`` features of kernels, each on the platform at its place, for the model to predict from.

        Raises:
            CostModelError: The model is of other feature columns than these kernels have: it learned from
                none of their kind, or was trained by another version.
        """
        return in_columns(extract(candidates, platforms), self.metadata.columns)

    def require_columns(self, columns: Sequence[Column]) -> None:
        """Refuse a model that was not trained on these feature columns.

        Raises:
            CostModelError: It was not.
        """
        if self.metadata.columns != tuple(column.name for column in columns):
            raise CostModelError(
                f"{self.path or 'The model'} must be a model of the {len(columns)} feature columns that this "
                "version of costmodel makes of these kernels, but it is of others. Train it again on such "
                "kernels, with `costmodel train`."
            )

    def save(self, path: Path | str) -> None:
        """Write the model to one file, without pickle. A file that is there is replaced at once.

        Raises:
            CostModelError: A part of it is of a class that is not registered, or the file cannot be written.
        """
        if not isinstance(self.model, StorableModel):
            raise CostModelError(
                "A model to save must be a StorableModel of costmodel.transfer, but got "
                f"{type(self.model).__name__}."
            )
        write_model(StoredModel(self.model, self.metadata, self.attachments), Path(path))

    def __repr__(self) -> str:
        facts = ", ".join(f"{name}={value}" for name, value in self._facts().items())
        return f"Model({facts})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
            for name, value in self._facts().items()
        )
        return f"<table><caption>Model</caption>{rows}</table>"

    def _said(
        self, candidates: Sequence[Candidate], platforms: Sequence[Platform]
    ) -> "dict[str, FloatArray]":
        return self.predictions(self.features(candidates, platforms))

    def _facts(self) -> dict[str, str]:
        """What shows a model in a few lines."""
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
    """Read a model that ``Model.save`` or ``costmodel train`` wrote; no code of the file is run.

    Args:
        path: The file.
        most_bytes: Most bytes that it may unpack to.

    Raises:
        CostModelError: There is no such file, it is damaged or too large, it is no model of a version that is
            understood, or its learner is not installed.
    """
    path = Path(path)
    stored = read_model(path, most_bytes)
    return Model(stored.model, stored.metadata, attachments=stored.attachments, path=path)


def _listed(devices: Sequence[Device]) -> str:
    return ", ".join(device.name for device in devices) or "no device"
