"""What a search measures with: a device, or the records of one."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from costmodel.collector import CpuRunner, CudaRunner, ReplayRunner, Runner
from costmodel.dataset import DatasetLike, load_dataset
from costmodel.engines import Engine
from costmodel.errors import CostModelError
from costmodel.records import TargetKind
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
        yield _replay(subject.name, replay, device)
        return
    kind: TargetKind = "cuda" if runner == CUDA else "cpu"
    settings: dict[str, Any] = {"sources": subject.sources(kind), "engine": engine, "kernels": kernels}
    with CudaRunner(lanes=lanes, **settings) if runner == CUDA else CpuRunner(**settings) as opened:
        yield opened


def _replay(workload: str, replay: DatasetLike | None, device: str | None) -> ReplayRunner:
    """A replay of what a dataset holds of the workload on one device."""
    measurements = load_dataset(replay, workloads=[workload]).to_measurements(workload)
    chosen = _chosen(sorted({m.platform.device.name for m in measurements}), device)
    return ReplayRunner(m for m in measurements if m.platform.device.name == chosen)


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
