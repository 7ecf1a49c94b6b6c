"""What ``costmodel tune`` sets up: the runner, the space, and the model with what is known of it."""

import difflib
import logging
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from costmodel.cli._output import console
from costmodel.errors import CostModelError

if TYPE_CHECKING:
    from costmodel.collect import CpuRunner, CudaRunner, ReplayRunner
    from costmodel.dataset import Dataset
    from costmodel.kernels.metaschedule import TargetKind
    from costmodel.records import Platform
    from costmodel.spaces import SearchSpace
    from costmodel.transfer import TransferModel

    AnyRunner = ReplayRunner | CudaRunner | CpuRunner


class RunnerName(StrEnum):
    """What measures."""

    REPLAY = "replay"
    CUDA = "cuda"
    CPU = "cpu"


def open_runner(name: RunnerName, workload: str, data: "Dataset | None", device: str | None) -> "AnyRunner":
    """The runner; a replay of what the dataset holds of the workload on one device.

    Raises:
        CostModelError: The dataset does not hold the workload or the device, or a device cannot be opened.
    """
    from costmodel.collect import CpuRunner, CudaRunner, ReplayRunner

    if name is RunnerName.CUDA:
        return CudaRunner()
    if name is RunnerName.CPU:
        return CpuRunner()
    assert data is not None
    known = sorted({candidate.workload.name for candidate in data.candidates})
    if workload not in known:
        near = difflib.get_close_matches(workload, known, n=3, cutoff=0.4)
        raise CostModelError(
            f"A replay can only tune workloads that were recorded, but got {workload!r}. "
            + (f"The nearest are {', '.join(near)}." if near else f"Recorded are {', '.join(known)}.")
        )
    measurements = data.to_measurements(workload)
    devices = sorted({m.platform.device.name for m in measurements})
    chosen = _device(devices, device)
    return ReplayRunner(m for m in measurements if m.platform.device.name == chosen)


def _device(known: Sequence[str], wanted: str | None) -> str:
    """The one of the known devices whose name contains what is wanted; the first if nothing is.

    Raises:
        CostModelError: There is none, or there are several.
    """
    found = [name for name in known if wanted is None or wanted.lower() in name.lower()]
    if not found or (wanted is not None and len(found) > 1 and wanted not in found):
        raise CostModelError(
            f"--device must name one of the devices that were recorded ({', '.join(known)}), "
            f"but got {wanted!r}."
        )
    return wanted if wanted in found else found[0]


def open_space(runner: "AnyRunner", platforms: "Sequence[Platform]", workload: str) -> "SearchSpace":
    """What a replay recorded on all of the platforms; else the workload's whole design space.

    The space is on the last of the platforms.

    Raises:
        CostModelError: The name is not that of a workload.
    """
    from costmodel.collect import ReplayRunner
    from costmodel.kernels.metaschedule import open_space as open_schedules
    from costmodel.records import Workload
    from costmodel.spaces import Pool, ScheduleSpace

    if isinstance(runner, ReplayRunner):
        return Pool(runner.recorded(*platforms), platforms[-1])
    kind: TargetKind = "cpu" if platforms[-1].device.kind == "cpu" else "cuda"
    with console.status("Opening the design space"):
        return ScheduleSpace(open_schedules(Workload.parse(workload), kind), platforms[-1])


def quieten_optuna() -> None:
    """Keep Optuna from logging trials, which the progress bar shows; call it after importing the search.

    Importing Optuna sets the level of its log.
    """
    logging.getLogger("optuna").setLevel(logging.WARNING)


def load_transfer_model(path: Path, left_out: str | None) -> "tuple[TransferModel, dict[str, str]]":
    """A model from a file, and what it is.

    Raises:
        CostModelError: It cannot be read, is no transfer model, expects other columns, or learned from the
            workload to leave out.
    """
    from costmodel.features import COLUMNS
    from costmodel.transfer import TransferModel, load_model

    loaded = load_model(path)
    loaded.require_columns(COLUMNS)
    if left_out in loaded.metadata.workloads:
        raise CostModelError(
            f"A replay of {left_out} must have a model that never saw it, but {path} learned from it. "
            f"Train one with `costmodel train --hold-out {left_out}`, or leave --model out."
        )
    if not isinstance(loaded.model, TransferModel):
        raise CostModelError(f"{path} must hold a transfer model, but holds {type(loaded.model).__name__}.")
    return loaded.model, {
        "model": f"{path} ({loaded.metadata.learner})",
        "trained_on": f"{len(loaded.metadata.workloads)} workloads",
        "dataset_sha256": loaded.metadata.dataset_sha256,
    }


def train_model(
    data: "Dataset", source: Path, workload: str, learner: str, seed: int
) -> "tuple[TransferModel, dict[str, str]]":
    """A model of what the dataset knows of other workloads, and what it is."""
    from costmodel.tuning import train

    held_out = {candidate.workload.name for candidate in data.candidates} & {workload}
    with console.status(f"Learning from {source}"):
        trained = train(data, learner, hold_out=sorted(held_out), seed=seed)
    return trained.model, {
        "model": learner,
        "trained_on": f"{len(trained.metadata.workloads)} other workloads of {source}",
        "dataset_sha256": trained.metadata.dataset_sha256,
    }
