"""What a search knows before it measures: a model of other kernels and other devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from costmodel.dataset import Dataset, device_similarity, twin_groups
from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.records import Workload
from costmodel.transfer import Model, TransferModel, load_model, make_model


@dataclass(frozen=True)
class Knowledge:
    """A model of other kernels and other devices.

    Attributes:
        model: The model; None to start from nothing.
        columns: Names of the feature columns that it expects; None for those that the kernels have.
        facts: What it is and what it learned from, for the provenance of an answer.
    """

    model: TransferModel | None = None
    columns: tuple[str, ...] | None = None
    facts: Mapping[str, str] = field(default_factory=lambda: {"model": "scratch", "trained_on": "nothing"})


def learn(history: Dataset, workload: Workload, device: str, learner: str, seed: int) -> Knowledge:
    """Train on what a dataset knows of other kernels, and of this one on other devices.

    What was measured of the workload on the device itself, or on a near-twin of it, is left out, as else a
    replay would look up what it is to find. Kernels of other suites have parameters of their own: only those
    of the same kind are learned from, see ``costmodel.features``.

    Args:
        history: What was measured.
        workload: What is tuned.
        device: Name of the device that it is tuned on.
        learner: Name of what learns, see ``costmodel.transfer.make_model``.
        seed: Seed of its random choices.

    Raises:
        CostModelError: No learner has this name.
    """
    learned = _related(history, workload) & ~_measured_here(history, workload, device)
    if not learned.any():
        return Knowledge()
    rows = history.rows[learned]
    table = extract(
        [history.candidates[i] for i in rows["candidate"]], [history.platforms[i] for i in rows["platform"]]
    )
    model = make_model(learner, table.columns, seed)
    return Knowledge(
        model.fit(table.values, rows["latency_s"].to_numpy(dtype=np.float64), rows["task"].to_numpy()),
        tuple(column.name for column in table.columns),
        {
            "model": learner,
            "trained_on": _described(history, learned, workload.name),
            "dataset_sha256": history.sha256,
        },
    )


def from_model(model: Model | Path | str, replayed: tuple[str, str] | None) -> Knowledge:
    """A model that was trained before.

    Args:
        model: The model or its file.
        replayed: Names of the workload and the device that are replayed, of which it must not know the
            answer; None where kernels are measured.

    Raises:
        CostModelError: It cannot be read, is no transfer model, or learned from what is replayed.
    """
    loaded = model if isinstance(model, Model) else load_model(model)
    seen = loaded.metadata
    devices = [device.name for device in seen.devices]
    name = str(loaded.path or "model")
    if replayed and replayed[0] in seen.workloads and replayed[1] in devices:
        raise CostModelError(
            f"A replay of {replayed[0]} on {replayed[1]} must have a model that never saw it, but {name} "
            f"learned from it. Train one with `costmodel train --hold-out {replayed[0]}`, or name no model."
        )
    return Knowledge(
        loaded.model,
        seen.columns,
        {
            "model": f"{name} ({seen.learner})",
            "trained_on": f"{len(seen.workloads)} workloads on {len(devices)} devices",
            "dataset_sha256": seen.dataset_sha256,
        },
    )


def _related(history: Dataset, workload: Workload) -> NDArray[np.bool_]:
    """``(n,)`` whether each row is of a kernel with the parameters of the workload's."""
    kind = _parameters_of(workload)
    return np.array(
        [_parameters_of(history.candidates[i].workload) == kind for i in history.rows["candidate"]]
    )


def _parameters_of(workload: Workload) -> str:
    """What its kernels' parameters are known by: those of other suites by their kind, ours are all alike."""
    return workload.kind if workload.is_foreign else ""


def _measured_here(history: Dataset, workload: Workload, device: str) -> NDArray[np.bool_]:
    """``(n,)`` whether each row is of the workload on the device, or on one that is nearly the same."""
    rows = history.rows
    same = (rows["workload"] == workload.name).to_numpy()
    here = {device}
    if rows["device"][same].nunique() > 1:
        here.update(*(group for group in twin_groups(device_similarity(history)) if device in group))
    return same & rows["device"].isin(here).to_numpy()


def _described(history: Dataset, learned: NDArray[np.bool_], workload: str) -> str:
    """What was learned from, in a few words."""
    rows = history.rows[learned]
    others = rows.loc[rows["workload"] != workload, "workload"].nunique()
    elsewhere = rows.loc[rows["workload"] == workload, "device"].nunique()
    parts = [
        f"{others} other workloads" if others != 1 else "1 other workload",
        f"this one on {elsewhere} other devices" if elsewhere != 1 else "this one on 1 other device",
    ]
    return " and ".join(part for part, count in zip(parts, (others, elsewhere), strict=True) if count) + (
        f" of {history.name}"
    )
