"""A table of kernels on parts of one device, the best first, with notes on what is unknown of them."""

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device, Platform, part_of
from costmodel.records._workload import Workload
from costmodel.transfer.prediction._devices import NEVER_MEASURED, outdone
from costmodel.transfer.prediction._physics import Predictions, base_of

if TYPE_CHECKING:
    from costmodel.transfer.prediction._model import Model


NO_INTERVAL = "no interval, as all that was learned from is of one architecture"
UNKNOWN_WORK = "work unknown, so measure it"
BEYOND_SIZES = "sizes beyond those learned from, so latencies may be far off"
# Between the notes of one kernel.
NOTE_SEPARATOR = "; "


def notes_on(
    model: "Model", candidates: Sequence[Candidate], platforms: Sequence[Platform], found: Predictions
) -> list[str]:
    """A note on each kernel; empty for kernels that are described, on devices that were measured.

    Args:
        model: The model.
        candidates: n kernels.
        platforms: Where each of them would run: parts of one device.
        found: ``(n,)`` values that the model predicts.
    """
    of_device = _notes_on_device(model, candidates, platforms, found)
    of_kernels = [[UNKNOWN_WORK] if _is_undescribed(each) else [] for each in candidates]
    if "latency_s" in found:
        beyond = _beyond_sizes(model, candidates)
        of_kernels = [
            [*notes, BEYOND_SIZES] if each.workload.name in beyond and not each.launches else notes
            for notes, each in zip(of_kernels, candidates, strict=True)
        ]
    return [
        NOTE_SEPARATOR.join([*kernel, *device]) for kernel, device in zip(of_kernels, of_device, strict=True)
    ]


def _is_undescribed(candidate: Candidate) -> bool:
    """Return whether neither workload nor launches say what is computed, as of the library's calls."""
    return candidate.source == "library" and candidate.workload.is_foreign


def _beyond_sizes(model: "Model", candidates: Sequence[Candidate]) -> set[str]:
    """Names of foreign kernels with a size that is larger, or smaller, than any that the model learned from.

    Names and sizes are all that is known of them: what a size does to latencies is learned from these alone.
    """
    asked = {each.workload.name: each.workload for each in candidates if each.workload.is_foreign}
    if not asked:
        return set()
    sizes: dict[tuple[str, str], list[int]] = {}
    for workload in map(Workload.parse, model.metadata.workloads):
        for dim, size in workload.dims.items():
            sizes.setdefault((workload.kind, dim), []).append(size)
    return {
        name
        for name, workload in asked.items()
        for dim, size in workload.dims.items()
        if (known := sizes.get((workload.kind, dim))) and not min(known) <= size <= max(known)
    }


def _notes_on_device(
    model: "Model", candidates: Sequence[Candidate], platforms: Sequence[Platform], found: Predictions
) -> list[list[str]]:
    device = platforms[0].device
    if model.has_measured(device):
        return [[]] * len(candidates)
    if isinstance(device, HypotheticalDevice):
        unmeasured = "" if model.has_measured(device.of) else f", {NEVER_MEASURED} either"
        return [[f"hypothetical, carried over from {device.of.name}{unmeasured}"]] * len(candidates)
    base = base_of(device, model.metadata.devices)
    every = [NEVER_MEASURED, *([f"carried over from {base.name}"] if base and "latency_s" in found else [])]
    if "low_s" in found and np.isnan(found["low_s"]).all():
        every.append(NO_INTERVAL)
    notes = [every] * len(candidates)
    if "latency_s" in found:
        for other in outdone(device, model.metadata.devices):
            slower = found["latency_s"] > _seconds_on(other, model, candidates, platforms)
            told = f"predicted slower than on {other.name}, which is better in nothing"
            notes = [
                [*each, told] if is_slower else each for each, is_slower in zip(notes, slower, strict=True)
            ]
    return notes


def _seconds_on(
    other: Device, model: "Model", candidates: Sequence[Candidate], platforms: Sequence[Platform]
) -> FloatArray:
    """``(n,)`` predicted seconds on as many SMs of another device, or on all that it has."""
    parts = [part_of(other, min(platform.sms_granted, other.sms)) for platform in platforms]
    return model.predictions_of(candidates, parts)["latency_s"]


class RankedKernels(pd.DataFrame):
    """A frame whose column ``rank_score`` answers to ``score``, as it was called before 0.4, until 0.5."""

    @property
    def _constructor(self) -> type["RankedKernels"]:
        return RankedKernels

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, list) else [key]
        if "score" not in self.columns and any(_is_former(each) for each in keys):
            message = 'The column "score" of a ranking is now called "rank_score".'
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            now = ["rank_score" if _is_former(each) else each for each in keys]
            key = now if isinstance(key, list) else now[0]
        return super().__getitem__(key)


def _is_former(key: Any) -> bool:
    return isinstance(key, str) and key == "score"


def ranked_kernels(
    model: "Model", candidates: Sequence[Candidate], refused: Sequence[str], platforms: Sequence[Platform]
) -> RankedKernels:
    """Return what ``Model.predict`` does.

    Args:
        model: The model.
        candidates: The kernels.
        refused: Why each cannot run there; empty for one that can, at least one.
        platforms: Parts of one device.
    """
    kernels = pd.DataFrame(
        {
            "candidate_id": [candidate.candidate_id for candidate in candidates],
            "config": [candidate.config.decisions for candidate in candidates],
        }
    )
    reasons = pd.Series(list(refused))
    runs = [i for i, reason in enumerate(refused) if not reason]
    of_rows = [candidates[i] for _ in platforms for i in runs]
    at_rows = [platform for platform in platforms for _ in runs]
    found = model.predictions_of(of_rows, at_rows)
    told = {**found, "note": np.array(notes_on(model, of_rows, at_rows, found), dtype=object)}
    ranked = []
    for place, platform in enumerate(platforms):
        at = slice(place * len(runs), (place + 1) * len(runs))
        predicted = pd.DataFrame({name: values[at] for name, values in told.items()}, index=runs)
        table = pd.concat([kernels, predicted.reindex(kernels.index)], axis=1)
        table["note"] = table["note"].fillna(reasons)
        table.insert(0, "sms", platform.sms_granted)
        ranked.append(table.sort_values("rank_score", ascending=False, kind="stable"))
    every = RankedKernels(pd.concat(ranked, ignore_index=True).dropna(axis="columns", how="all"))
    every.attrs["platforms"] = [platform.name for platform in platforms]
    return every if every["note"].any() else every.drop(columns="note")
