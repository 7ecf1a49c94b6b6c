"""What the CUDA and the CPU runner share: builders, benches, and batches that go from one to the other."""

import socket
from collections import ChainMap
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from copy import copy
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from costmodel.collector._builders import Builders, start_build_workers
from costmodel.collector._engine import Engine
from costmodel.collector._meter import METER, MeteredStage
from costmodel.collector.device._job import ArrayArgument, DeviceSetup, ModuleJob
from costmodel.collector.device._timing import Timed, Timing
from costmodel.collector.runners._base import Request, Runner
from costmodel.collector.runners._batch import BatchTimer, time_module_on
from costmodel.collector.runners._bench import Bench, Benches, DeviceJobs
from costmodel.errors import CostModelError, DeviceUnavailableError
from costmodel.files import check_writable
from costmodel.kernels._base import KernelSource
from costmodel.kernels._sources import source_for
from costmodel.kernels.metaschedule._source import MetaSchedule
from costmodel.liveness import HeldFolder
from costmodel.records._candidate import Candidate
from costmodel.records._identity import content_id
from costmodel.records._measurement import Measurement
from costmodel.records._platform import Device, Isolation, Platform, TargetKind, check_sms
from costmodel.records._workload import Workload
from costmodel.threads import cpu_threads
from costmodel.version import __version__

if TYPE_CHECKING:
    from costmodel.search.spaces._base import SearchSpace

# SM budgets to try where none is asked for, next to the whole device.
_USUAL_BUDGETS = (1, 2, 4, 8, 16, 32, 48, 64, 96)


def default_builders(devices: int) -> int:
    """Return the default number of build processes: one hardware thread is left to each device."""
    return max(1, cpu_threads() - devices)


class DeviceRunner(Runner):
    """Builds candidates in worker processes and times them on one or several benches.

    Workers are spawned once and kept; one that hangs or dies is replaced at the cost of its candidate.

    Attributes:
        device: The device model, as its driver describes it.
    """

    kind: TargetKind
    isolation: Isolation
    _unit = "SMs"

    def __init__(  # noqa: PLR0913 (one argument a setting, all optional)
        self,
        *,
        sources: Sequence[KernelSource] | None = None,
        engine: Engine | None = None,
        kernels: Path | str | None = None,
        lanes: bool = False,
        timing: Timing | None = None,
        devices: int = 1,
        build_workers: int | None = None,
        build_timeout_s: float = 120.0,
        run_timeout_s: float = 30.0,
        device_jobs: DeviceJobs | None = None,
    ) -> None:
        """Start the workers and open the devices.

        Args:
            sources: Where kernels come from; a workload is made by the first that can, unless one is named.
                Default: MetaSchedule.
            engine: Where kernels are built, such as a ``DaskEngine``, which stays open. Default:
                ``build_workers`` processes of this machine.
            kernels: Folder that keeps the built kernels, by the software that builds and runs them, for other
                processes too. Default: a temporary one.
            lanes: Measure on SMs of its own, while other processes measure on the others; a GPU only.
            timing: How to time.
            devices: Number of physical devices of one model that measure at once.
            build_workers: Number of build processes. Default: one hardware thread is left to each device.
            build_timeout_s: Seconds after which a build is given up.
            run_timeout_s: Seconds after which a job on the device is given up: one kernel on the platforms
                asked for, or several that are timed side by side.
            device_jobs: What the devices' processes are asked to do.

        Raises:
            CostModelError: What a source needs is not installed, kernels cannot be kept in their folder, or a
                device cannot be opened.
        """
        self._sources = tuple(sources or (MetaSchedule(),))
        self._limit_s, self._lanes = run_timeout_s, lanes
        self._check_machine()
        if kernels:
            check_writable(Path(kernels), folder=True)
        self._scratch = HeldFolder("costmodel-kernels-")
        self._threads = cpu_threads()
        benches = [Bench(position, self._scratch.path) for position in range(devices)]
        self._benches = Benches(benches, run_timeout_s)
        self._timing, self._jobs = timing or Timing(), device_jobs or DeviceJobs()
        self._granted: dict[tuple[int, Isolation], int] = {}
        self.device, self._software = self._open()
        architecture, scratch = self.device.architecture, self._scratch.path
        count = build_workers or default_builders(devices)
        self._engine: Engine = engine or start_build_workers(
            self._sources, self.kind, architecture, count, scratch
        )
        self._owns_engine = engine is None
        kept = Path(kernels) / content_id(self._built_by)[:8] if kernels else scratch
        self._builders = Builders(self._engine, self._sources, self.kind, architecture, kept, build_timeout_s)

    @property
    def description(self) -> str:
        """What measures."""
        count = len(self._benches)
        names = self.device.name if count == 1 else f"{count} x {self.device.name}"
        beside = ", beside others; the best alone" if self._lanes else ""
        return f"Measuring on {names} ({self.device.sms} {self._unit}){beside}."

    @property
    def has_neighbours(self) -> bool:
        """Whether it measures on lanes."""
        return self._lanes

    @property
    def alone(self) -> Runner:
        """The same without lanes."""
        if not self._lanes:
            return self
        other = copy(self)
        other._lanes = False
        return other

    def platform(self, sms: int | None = None, isolation: Isolation | None = None) -> Platform:
        """The platform that a budget of ``sms`` gives; the whole device where there is no budget.

        Args:
            sms: SMs asked for.
            isolation: What sets them apart, where it is not the runner's usual mechanism.

        Raises:
            CostModelError: That many cannot be granted here.
        """
        requested = check_sms(self.device, self.device.sms if sms is None else sms)
        mechanism = isolation or self.isolation
        if (requested, mechanism) not in self._granted:
            self._granted[requested, mechanism] = self._grant(requested, mechanism)
        granted = self._granted[requested, mechanism]
        if mechanism == "green_context" and granted == self.device.sms:
            mechanism = "whole"
        return Platform(self.device, mechanism, requested, granted, self._software)

    @property
    def budgets(self) -> tuple[int, ...]:
        """Those of the usual SM budgets that are granted, and the whole device."""
        granted = {self.device.sms}
        for sms in _USUAL_BUDGETS:
            with suppress(CostModelError):  # a budget that cannot be granted here
                granted.add(self.platform(sms).sms_granted)
        return tuple(sorted(granted))

    @property
    def in_flight(self) -> int:
        """One that is measured, and one for each build process that there is now."""
        return 1 + sum(worker.slots for worker in self._engine.workers())

    def sources(self, workload: Workload | str) -> tuple[str, ...]:
        """Those that make a workload.

        Raises:
            CostModelError: The name is not that of a workload, or no source makes it.
        """
        parsed = Workload.parse(workload) if isinstance(workload, str) else workload
        source_for(parsed, self.kind, self._sources)
        return tuple(source.name for source in self._sources if source.makes(parsed, self.kind))

    def space(
        self,
        workload: Workload | str,
        platforms: Sequence[Platform],
        *,
        source: str | None = None,
    ) -> "SearchSpace":
        """All kernels that a source makes of a workload.

        Raises:
            CostModelError: The name is not that of a workload, or no source makes it.
        """
        from costmodel.search.spaces._kernel import KernelSpace

        parsed = Workload.parse(workload) if isinstance(workload, str) else workload
        chosen = source_for(parsed, self.kind, self._sources, source)
        return KernelSpace(chosen.space(parsed, self.kind), *platforms)

    def draw(
        self,
        function: Callable[..., list[Candidate]],
        workload: Workload,
        count: int,
        seed: int,
        **options: Any,
    ) -> "Future[list[Candidate]]":
        """Call ``function(workload, kind, count, seed, **options)`` in a build worker.

        ``costmodel.kernels.metaschedule.sample_candidates`` is such a function.
        """
        return self._engine.submit(partial(function, **options), workload, self.kind, count, seed)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Start building, what takes longest first, and computing reference outputs.

        Safe to call from any thread.
        """
        self._builders.prefetch(candidates)

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Build what is not built yet, and time each candidate on ``platform``, one after the other."""
        with METER.timing(MeteredStage("measure", socket.gethostname())):
            self.prefetch(candidates)
            requests = [Request(each, platform, visit, lane=self._lanes) for each in candidates]
            batches = [self.submit([request]) for request in requests]
            return [measurement for batch in batches for measurement in batch.result()]

    def submit(self, requests: Sequence[Request]) -> "Future[list[Measurement]]":
        """Build what the requests need, and measure them together as soon as all of it is there.

        Requests of one workload are timed side by side, interleaved. Until they are on a device, the future
        can be cancelled, and is when the runner is closed.
        """
        outcome: Future[list[Measurement]] = Future()
        candidates = [request.candidate for request in requests]
        self._builders.when_built(candidates, lambda: self._enqueue(tuple(requests), outcome))
        return outcome

    def time_module(
        self, library: Path, arguments: Sequence[ArrayArgument], platform: Platform
    ) -> "Future[Timed]":
        """Time a module that somebody built, on random arguments and without a look at its output.

        Args:
            library: What TVM loads it from; its function is ``main``.
            arguments: Arrays that it takes, in order.
            platform: Where.
        """
        bench = self._benches.first
        job = ModuleJob(library, tuple(arguments), platform.sms_requested, self._timing)
        setup = self._setup(bench.position, platform)
        return bench.queue.submit(time_module_on, bench, setup, job, self._limit_s)

    def start_over(self) -> None:
        """Begin another search: builds of the last one are known by their files alone, which may be gone."""
        self._builders.start_over()

    def close(self) -> None:
        """End the runner's processes, cancel its builds elsewhere, and delete what is temporary."""
        if self._owns_engine:
            self._engine.close()
        self._builders.close()
        self._close_devices()

    def _close_devices(self) -> None:
        self._benches.close()
        self._scratch.delete()

    def _enqueue(self, requests: tuple[Request, ...], outcome: "Future[list[Measurement]]") -> None:
        try:
            bench = self._benches.of(requests[0].candidate.workload)
            job = bench.queue.submit(self._measure_batch, bench, requests, outcome)
        except RuntimeError:  # the runner is closed
            _cancel(outcome)
        else:
            job.add_done_callback(lambda job: _cancel(outcome) if job.cancelled() else None)

    def _measure_batch(
        self, bench: Bench, requests: tuple[Request, ...], outcome: "Future[list[Measurement]]"
    ) -> None:
        """Measure a batch; runs in the queue of a bench."""
        if not outcome.set_running_or_notify_cancel():
            return
        try:
            candidates = {request.candidate.candidate_id: request.candidate for request in requests}
            builds = {id_: self._builders.built(candidate) for id_, candidate in candidates.items()}
            setup_of = partial(self._setup, bench.position)
            timer = BatchTimer(self._sources, self._timing, self._limit_s, setup_of, self._jobs)
            outcome.set_result(timer.measure(requests, builds, bench))
        except BaseException as error:  # noqa: BLE001 (it goes to whoever waits)
            outcome.set_exception(error)

    def _setup(self, position: int, platform: Platform | None = None) -> DeviceSetup:
        """How the process opens the device that measures ``platform`` on the bench at ``position``."""
        return DeviceSetup(self.kind, self._threads, artifacts=self._artifacts)

    @property
    def _built_by(self) -> dict[str, str]:
        """Versions of all that a built kernel depends on, by name."""
        compilers = [source.compilers(self.kind) for source in self._sources]
        return dict(ChainMap(*compilers, self._software, {"costmodel": __version__}))

    @property
    def _artifacts(self) -> tuple[str, ...]:
        """How the files of the kernels end that will be timed."""
        return tuple(source.artifact for source in self._sources)

    def _check_machine(self) -> None:
        """Check that this machine has what the runner needs.

        Raises:
            CostModelError: It has not.
        """
        for source in self._sources:
            source.check_installed(self.kind)

    def _open(self) -> tuple[Device, dict[str, str]]:
        try:
            return self._benches.describe(self._jobs, self._setup)
        except BaseException as error:  # an interrupt too
            self._close_devices()
            if isinstance(error, CostModelError) or not isinstance(error, Exception):
                raise
            raise DeviceUnavailableError(self._cannot_open(error)) from error

    def _cannot_open(self, error: Exception) -> str:
        return f"The {self.kind} device cannot be opened: {error}."

    def _grant(self, sms: int, isolation: Isolation) -> int:
        wanted = Platform(self.device, isolation, sms, sms, self._software)
        try:
            return self._benches.grant(wanted, self._setup)
        except RuntimeError as error:
            raise CostModelError(
                f"A budget of {sms} {self._unit} cannot be granted on {self.device.name}: {error}."
            ) from error


def _cancel(future: "Future[Any]") -> None:
    """Cancel a future that nobody runs, and tell those who wait for it."""
    future.cancel()
    future.set_running_or_notify_cancel()
