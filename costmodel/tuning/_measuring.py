"""What a search measures with: a device, or the records of one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._cpu import CpuRunner
from costmodel.collector.runners._cuda import CudaRunner
from costmodel.collector.runners._replay import ReplayRunner
from costmodel.dataset.table._read import DatasetLike, load_dataset, workloads_in
from costmodel.engines._base import Engine
from costmodel.errors import CostModelError
from costmodel.records._platform import TargetKind
from costmodel.tuning._shipped import shipped_with
from costmodel.tuning._subject import Subject

REPLAY, CUDA, CPU = "replay", "cuda", "cpu"
RUNNERS = (REPLAY, CUDA, CPU)


@contextmanager
def opened_runner(  # noqa: PLR0913 (what measures, and with what)
    runner: Runner | str,
    subject: Subject,
    replay: DatasetLike | None,
    device: str | None,
    engine: Engine | None = None,
    *,
    kernels: Path | None = None,
    lanes: bool = False,
) -> Iterator[Runner]:
    """The runner; one that is named is opened, and closed in the end.

    Args:
        runner: A runner, or one of ``RUNNERS``.
        subject: What is tuned.
        replay: What a replay serves.
        device: Name of the device that is replayed, or a part of it; the first by name if None.
        engine: Where a device that is named has its kernels built; processes here if None.
        kernels: Folder in which a device that is named keeps built kernels; none are kept if None.
        lanes: Whether a GPU that is named measures beside other processes.

    Raises:
        CostModelError: There is no such runner, it has no lanes, the dataset does not hold the workload or
            the device, or a device cannot be opened.
    """
    if runner != REPLAY and (replay is not None or device is not None):
        raise CostModelError(
            f"Records to replay, and the device that they are of, must be named without a runner, but got "
            f"{runner}. Leave one of them out."
        )
    if lanes and runner != CUDA:
        raise CostModelError(f"Lanes must be those of the runner {CUDA}, but got {runner}. Leave them out.")
    if isinstance(runner, Runner):
        yield runner
        return
    if runner not in RUNNERS:
        raise CostModelError(f"The runner must be one of {', '.join(RUNNERS)}, but got {runner!r}.")
    if runner == REPLAY:
        yield _replay(subject, replay, device)
        return
    kind: TargetKind = "cuda" if runner == CUDA else "cpu"
    settings: dict[str, Any] = {"sources": subject.sources(kind), "engine": engine, "kernels": kernels}
    with CudaRunner(lanes=lanes, **settings) if runner == CUDA else CpuRunner(**settings) as opened:
        yield opened


def _replay(subject: Subject, replay: DatasetLike | None, device: str | None) -> ReplayRunner:
    """A replay of what a dataset holds of the workload on one device."""
    workload = subject.name
    if replay is None and workload not in workloads_in(None):
        _check_recorded(subject)
    measurements = load_dataset(replay, workloads=[workload]).to_measurements(workload)
    chosen = _chosen(sorted({m.platform.device.name for m in measurements}), device)
    return ReplayRunner(m for m in measurements if m.platform.device.name == chosen)


def _check_recorded(subject: Subject) -> None:
    """Say what to name for a workload that the default dataset does not hold.

    Raises:
        CostModelError: Another shipped dataset holds it, or its kernels are the user's own.
    """
    if names := shipped_with(subject.name):
        raise CostModelError(
            f"A replay of {subject.name} must be of a dataset that has it, but none is named, and the "
            f"default one does not. Name one: {' or '.join(f'`--replay {name}`' for name in names)}."
        )
    if subject.family or subject.program:
        raise CostModelError(
            f"A kernel of your own must be measured, but no runner is named, and no included dataset has "
            f"{subject.name}. Name a runner, such as `--runner {CUDA}` for this GPU, or records of your own "
            "with `--replay`."
        )


def _chosen(known: Sequence[str], device: str | None) -> str:
    """The one of the known devices whose name contains what is asked for; the first if nothing is.

    Raises:
        CostModelError: There is none, or there are several.
    """
    found = [name for name in known if device is None or device.lower() in name.lower()]
    if device in found:
        return str(device)
    if not found or (device is not None and len(found) > 1):
        raise CostModelError(
            f"The device must be one of those that were recorded ({', '.join(known)}), but got {device!r}."
        )
    return found[0]
