"""What is to be known beside a prediction: what the model has no measurement of, or no description."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Candidate
from costmodel.records._hypothetical import HypotheticalDevice
from costmodel.records._platform import Device, Platform, part_of
from costmodel.transfer.prediction._devices import outdone
from costmodel.transfer.prediction._monotone import Predictions

if TYPE_CHECKING:
    from costmodel.transfer.prediction._model import Model

NEVER_MEASURED = "never measured on this device"
NO_INTERVAL = "no interval, as all that was learned from is of one architecture"
UNKNOWN_WORK = "work unknown, so measure it"
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
    return [
        NOTE_SEPARATOR.join([*kernel, *device]) for kernel, device in zip(of_kernels, of_device, strict=True)
    ]


def _is_undescribed(candidate: Candidate) -> bool:
    """Whether neither its workload nor its launches say what it computes, as of the library's calls."""
    return candidate.source == "library" and candidate.workload.is_foreign


def _notes_on_device(
    model: "Model", candidates: Sequence[Candidate], platforms: Sequence[Platform], found: Predictions
) -> list[list[str]]:
    device = platforms[0].device
    if model.has_measured(device):
        return [[]] * len(candidates)
    if isinstance(device, HypotheticalDevice):
        unmeasured = "" if model.has_measured(device.of) else f", {NEVER_MEASURED} either"
        return [[f"hypothetical, carried over from {device.of.name}{unmeasured}"]] * len(candidates)
    every = [NEVER_MEASURED]
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
