"""A table of kernels on parts of one device, the best first, with notes on what is unknown of them."""

import re
import warnings
from collections import defaultdict
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
BEYOND_SIZES = "sizes beyond those learned from"
BEYOND_SMS = "SMs beyond those learned from"
# Between the notes of one kernel.
NOTE_SEPARATOR = "; "
# At the end of its name. That of a model is read from a file, and may be any text.
_SMS_OF_PLATFORM = re.compile(r"/([0-9]{1,9})\Z")


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
        beyond = _beyond_learned(model, candidates, platforms)
        of_kernels = [[*notes, *more] for notes, more in zip(of_kernels, beyond, strict=True)]
    return [
        NOTE_SEPARATOR.join([*kernel, *device]) for kernel, device in zip(of_kernels, of_device, strict=True)
    ]


def _is_undescribed(candidate: Candidate) -> bool:
    """Return whether neither workload nor launches say what is computed, as of the library's calls."""
    return candidate.source == "library" and candidate.workload.is_foreign


def _beyond_learned(
    model: "Model", candidates: Sequence[Candidate], platforms: Sequence[Platform]
) -> list[list[str]]:
    """What lies beyond all that was learned from, of kernels of which sizes and parameters alone are known.

    What sizes and SMs do to the latencies of other kernels is told by their work as well.
    """
    asked = [_is_named_alone(each) for each in candidates]
    learned = _learned_sizes(model) if any(asked) else {}
    learned_sms = [int(sms[1]) for name in model.metadata.platforms if (sms := _SMS_OF_PLATFORM.search(name))]
    notes: list[list[str]] = []
    for candidate, platform, is_asked in zip(candidates, platforms, asked, strict=True):
        dims = candidate.workload.dims.items() if is_asked else ()
        is_larger = any(
            _is_beyond(size, learned.get((candidate.workload.kind, dim), ())) for dim, size in dims
        )
        is_wider = is_asked and _is_beyond(platform.sms_granted, learned_sms)
        notes.append([BEYOND_SIZES] * is_larger + [BEYOND_SMS] * is_wider)
    return notes


def _is_named_alone(candidate: Candidate) -> bool:
    """Whether nothing says what a kernel does but its name, sizes and parameters."""
    workload = candidate.workload
    return workload.is_foreign and not workload.is_program and not candidate.launches


def _learned_sizes(model: "Model") -> dict[tuple[str, str], Sequence[int]]:
    """The least and the largest size that the model learned from, by kind of workload and dimension."""
    sizes: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for workload in map(Workload.parse, model.metadata.workloads):
        for dim, size in workload.dims.items():
            sizes[workload.kind, dim].append(size)
    return {key: (min(each), max(each)) for key, each in sizes.items()}


def _is_beyond(value: int, learned: Sequence[int]) -> bool:
    """Whether a value is larger, or smaller, than all that was learned from, if anything was."""
    return bool(learned) and not min(learned) <= value <= max(learned)


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
        return super().__getitem__(self._called_now(key))

    @property
    def score(self) -> pd.Series:
        """The column ``rank_score``."""
        score: pd.Series = self["score"]
        return score

    def sort_values(self, by: Any, *args: Any, **kwargs: Any) -> Any:
        """Sort, also by the former name."""
        return super().sort_values(self._called_now(by), *args, **kwargs)

    def _called_now(self, key: Any) -> Any:
        """A name of a column, or a list of them, as columns are called now."""
        keys = key if isinstance(key, list) else [key]
        if "score" in self.columns or not any(_is_former(each) for each in keys):
            return key
        message = 'The column "score" of a ranking is now called "rank_score".'
        warnings.warn(message, DeprecationWarning, stacklevel=3)
        now = ["rank_score" if _is_former(each) else each for each in keys]
        return now if isinstance(key, list) else now[0]


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
