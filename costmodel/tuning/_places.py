"""Where a search measures: the records of a device, this GPU, this CPU, or any of them beside a service."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from costmodel.collector._engine import Engine
from costmodel.collector.device._timing import Timing
from costmodel.collector.runners._base import Runner
from costmodel.collector.runners._device_runner import DeviceRunner
from costmodel.collector.runners._devices import CpuRunner, CudaRunner
from costmodel.collector.runners._replay import ReplayRunner
from costmodel.collector.runners._service_watch import ServiceReport, ServiceWatch
from costmodel.collector.runners._watched_service import WatchedService
from costmodel.collector.runners._wrapped import RecordedRunner, WatchedRunner
from costmodel.dataset._machine_code import has_machine_code, load_machine_code
from costmodel.dataset.table._read import DatasetLike, load_dataset, workloads_in
from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.kernels._base import KernelSource
from costmodel.records._device_table import find_among, is_device
from costmodel.records._platform import TargetKind
from costmodel.report._progress import Progress
from costmodel.tuning._request import Goal, SearchSettings
from costmodel.tuning._shipped import shipped_with
from costmodel.tuning._subject import Subject


@dataclass(frozen=True)
class Replay:
    """Recorded measurements, in place of a device.

    Attributes:
        dataset: A dataset, the name of a shipped one, or a path. None for the default shipped dataset.
        device: Name of the device to replay, of which model and number are enough (``h100``), if the records
            hold several. None for the first by name.
    """

    dataset: DatasetLike | None = None
    device: str | None = None


class OtherDeviceError(DeviceUnavailableError):
    """There is a GPU, but not the one that is asked for."""


class KeptRunner:
    """The runner of a device, which stays open from one search to the next.

    Its processes take seconds to start, and a context on a GPU. Another search of the same sources measures
    with it; one of other sources closes it first.

    Attributes:
        gpu: Name of the GPU, once one was opened.
    """

    gpu: str | None = None

    def __init__(self) -> None:
        self._asked: object = None
        self._runner: DeviceRunner | None = None

    def get(self, asked: object, open_runner: Callable[[], DeviceRunner]) -> DeviceRunner:
        """Return the runner that was asked for last in the same words, or open one."""
        if self._runner is None or self._asked != asked:
            self.close()
            self._asked, self._runner = asked, open_runner()
            if self._runner.device.kind == "cuda":
                self.gpu = self._runner.device.name
        else:
            self._runner.start_over()
        return self._runner

    def close(self) -> None:
        """End the processes. May be called twice."""
        if self._runner:
            self._runner.close()
        self._runner = None


@dataclass(frozen=True)
class Gpu:
    """This machine's first visible NVIDIA GPU.

    Attributes:
        records: Record store for measurements (``.jsonl``, ``.db``, or the URL of a database). It is searched
            before a candidate is measured.
        kernels: Folder that caches built kernels, so that no other search, in any process, builds them again.
            You can delete it at any time between searches. None for no cache.
        engine: Where kernels are built (see ``costmodel.service``). None for processes on this machine.
        lanes: Measure on the given number of SMs while other processes measure on the rest, and measure the
            best kernels alone at the end. Needs an MPS daemon. Otherwise processes take turns, so that
            measurements do not disturb each other.
        kept: Keeps the runner open for the next search of this process. None to close it at the end.
        device: Name of the GPU that it must be, of which model and number do (``h100``). None for any.
    """

    records: Path | str | None = None
    kernels: Path | str | None = None
    engine: Engine | None = None
    lanes: bool = False
    kept: KeptRunner | None = None
    device: str | None = None


@dataclass(frozen=True)
class Cpu:
    """This machine's CPU, where an SM budget is a number of threads; the attributes are those of ``Gpu``."""

    records: Path | str | None = None
    kernels: Path | str | None = None
    engine: Engine | None = None
    kept: KeptRunner | None = None


@dataclass(frozen=True)
class Beside:
    """A place to measure while a service runs on the other SMs.

    Kernels are measured one by one. The search pauses when the service's p99 rises by more than is allowed,
    and ends with the trials made so far if it cannot continue.

    Attributes:
        place: Where to measure: a place, its name, or a runner.
        service: The watch of the service, or the file to which it appends its latencies, for the default
            bound (see ``costmodel.collector.ServiceWatch``).
        on_end: Called in the end with how the service fared: by how much its p99 rose (``p99_rise``), and how
            long measuring paused (``pauses``, ``paused_s``).
    """

    place: "Place | PlaceName"
    service: ServiceWatch | Path | str
    on_end: Callable[[ServiceReport], object] | None = None


# A process that waits for the usual pace of a device that it shares keeps it from the others: on H200 that
# four shared, such waits took most of the first minute (experiments/fleet). What all launches are late by
# while processes take turns does not tell which kernel is faster.
_PATIENCE_IN_TURNS_S = 1.0

Place = Runner | Replay | Gpu | Cpu | Beside
PlaceName = Literal["replay", "cuda", "cpu"]
_NAMED: dict[str, Place] = {"replay": Replay(), "cuda": Gpu(), "cpu": Cpu()}


def find_place(on: Place | str) -> Place:
    """Return a place by its name, or the place itself.

    Raises:
        CostModelError: No place has this name.
    """
    if isinstance(on, Place):
        return on
    if not isinstance(on, str) or on not in _NAMED:
        raise CostModelError(
            f"A search must measure on one of {', '.join(_NAMED)}, on a place such as Gpu(lanes=True), or on "
            f"a runner, but got {on!r}."
        )
    return _NAMED[on]


@contextmanager
def open_place(place: Place, subject: Subject, goal: Goal, settings: SearchSettings) -> Iterator[Runner]:
    """Open the runner of a place, which is closed in the end; one that is passed as an object stays open.

    Raises:
        CostModelError: The dataset does not hold the workload or the device, a device cannot be opened, the
            service reports no latencies, or the search would leave it no SMs.
    """
    if isinstance(place, Beside):
        with (
            _watch_service(place, goal, settings) as service,
            open_place(find_place(place.place), subject, goal, settings) as runner,
        ):
            yield WatchedRunner(runner, service)
        if place.on_end:
            place.on_end(service.report)
    elif isinstance(place, Runner):
        yield place
    elif isinstance(place, Replay):
        yield _open_replay(subject, place)
    else:
        with _open_device(place, subject) as runner:
            yield RecordedRunner(runner, place.records) if place.records else runner


def replayed_dataset(place: Place) -> DatasetLike | None:
    """Return the dataset that a place replays; None if it is the default one, or nothing is replayed."""
    return place.dataset if isinstance(place, Replay) else None


@contextmanager
def _open_device(place: Gpu | Cpu, subject: Subject) -> Iterator[Runner]:
    """Open the runner of a device, or go on with the one that is kept."""
    kind: TargetKind = "cpu" if isinstance(place, Cpu) else "cuda"
    sources = subject.sources(kind)
    open_runner = partial(_new_runner, place, sources)
    if place.kept:
        asked = kind, [source.name for source in sources], place.kernels, place.engine, _has_lanes(place)
        runner = place.kept.get(asked, open_runner)
        _check_device(place, runner)
        yield runner
    else:
        with open_runner() as runner:
            _check_device(place, runner)
            yield runner


def _check_device(place: Gpu | Cpu, runner: DeviceRunner) -> None:
    """Check that a GPU is the one that is asked for.

    Raises:
        OtherDeviceError: It is another.
    """
    if isinstance(place, Gpu) and place.device and not is_device(place.device, runner.device.name):
        raise OtherDeviceError(
            f"The GPU here must be {place.device}, but it is {runner.device.name}. Run it where there is one."
        )


def _new_runner(place: Gpu | Cpu, sources: Sequence[KernelSource]) -> DeviceRunner:
    kind = CpuRunner if isinstance(place, Cpu) else CudaRunner
    return kind(
        sources=sources,
        engine=place.engine,
        kernels=None if place.kernels is None else Path(place.kernels),
        lanes=_has_lanes(place),
        timing=Timing(patience_s=_PATIENCE_IN_TURNS_S) if place.kept else None,
    )


def _has_lanes(place: "Place | PlaceName") -> bool:
    return isinstance(place, Gpu) and place.lanes


@contextmanager
def _watch_service(place: Beside, goal: Goal, settings: SearchSettings) -> Iterator[WatchedService]:
    """Watch a service, after measuring its latency alone.

    Raises:
        CostModelError: It reports no latencies, or a search would measure on SMs that it does not name.
    """
    if not goal.sms or goal.free_sms is not None or settings.measure_curves or _has_lanes(place.place):
        raise CostModelError(
            "A search beside a service must name its SMs (sms) and measure on no others (free_sms, "
            "measure_curves, lanes), but this one would. Give only sms."
        )
    watch = place.service if isinstance(place.service, ServiceWatch) else ServiceWatch(place.service)
    with Progress("watching the service alone, requests", watch.window) as progress:
        service = WatchedService(watch, lambda requests: progress.advance(steps=requests))
    with closing(service):
        yield service


def _open_replay(subject: Subject, place: Replay) -> ReplayRunner:
    """Make a replay of what a dataset holds of the workload on one device."""
    workload = subject.name
    if place.dataset is None and workload not in workloads_in(None):
        _check_recorded(subject)
    dataset = load_dataset(place.dataset, workloads=[workload])
    measurements = dataset.to_measurements(workload)
    chosen = _find_device(sorted({m.platform.device.name for m in measurements}), place.device)
    code = load_machine_code(dataset) if has_machine_code(dataset) else None
    return ReplayRunner((m for m in measurements if m.platform.device.name == chosen), code)


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
            f"{subject.name}. Name a runner, such as `--runner cuda` for this GPU, or records of your own "
            "with `--replay`."
        )


def _find_device(known: Sequence[str], device: str | None) -> str:
    """Return the known device that is asked for; the first if nothing is.

    Raises:
        CostModelError: There is none, or there are several.
    """
    what = f"one of those that were recorded ({', '.join(known)})"
    return known[0] if device is None and known else find_among(device or "", known, what)
