"""What the CUDA and the CPU runner share: persistent build workers and one device worker."""

import multiprocessing
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import msgspec

from costmodel.collect._base import Runner
from costmodel.collect._build import Built, Kind, build_kernel, start_build_worker
from costmodel.collect._cpu_device import cpu_threads
from costmodel.collect._device import Timed, describe_device, grant, measure_kernel
from costmodel.collect._inputs import write_reference
from costmodel.collect._timing import Timing
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.records import Candidate, Device, Isolation, Measurement, Outcome, Platform, Workload
from costmodel.spaces import sample_candidates

# Opening a device takes TVM's import and, on CUDA, a context: seconds, minutes on a loaded machine.
_OPEN_TIMEOUT_S = 300.0


class TvmRunner(Runner):
    """Builds candidates in worker processes and times them in another one.

    Workers are spawned once and kept; one that hangs or dies is replaced at the cost of its candidate.

    Attributes:
        device: The device, as its driver describes it.
    """

    isolation: Isolation

    def __init__(
        self,
        kind: Kind,
        *,
        build_workers: int | None = None,
        build_timeout_s: float = 120.0,
        run_timeout_s: float = 30.0,
        timing: Timing | None = None,
    ) -> None:
        """Start the workers and open the device.

        Args:
            kind: Kind of device.
            build_workers: Build processes; unless given, one hardware thread is left to the device worker.
            build_timeout_s: Seconds after which a build is given up.
            run_timeout_s: Seconds after which a measurement is given up.
            timing: How to time.

        Raises:
            CostModelError: TVM is not installed, or the device cannot be opened.
        """
        if find_spec("tvm") is None:
            raise MissingExtraError(f"Measuring on {kind}", "tvm")
        import pebble  # comes with the tvm extra

        self._pebble = pebble
        self._kind: Kind = kind
        self._timing = timing or Timing()
        self._timeouts = {"build": build_timeout_s, "run": run_timeout_s}
        self._folder = tempfile.TemporaryDirectory(prefix="costmodel-kernels-")
        self._spawn = multiprocessing.get_context("spawn")
        self._builders = self._pool(build_workers or max(1, cpu_threads() - 1), start_build_worker)
        self._device_worker = self._pool(1)
        self._builds: dict[str, Future[Built]] = {}
        self._references: dict[str, Future[Path]] = {}
        self._granted: dict[int, int] = {}
        self._lock = threading.Lock()
        self._threads = cpu_threads()
        self.device, self._software = self._open()

    @property
    def description(self) -> str:
        """What measures."""
        return f"Measuring on {self.device.name} ({self.device.sms} {self._unit})."

    _unit = "SMs"

    def platform(self, sms: int | None = None) -> Platform:
        """The platform that a budget of ``sms`` gives; the whole device where there is no budget."""
        requested = self.device.sms if sms is None else sms
        if not 1 <= requested <= self.device.sms:
            raise CostModelError(
                f"An SM budget must be from 1 to {self.device.sms} {self._unit} on {self.device.name}, "
                f"but got {requested}."
            )
        if requested not in self._granted:
            self._granted[requested] = self._ask(grant, requested)
        granted = self._granted[requested]
        isolation = "whole" if granted == self.device.sms and self._kind == "cuda" else self.isolation
        return Platform(self.device, isolation, requested, granted, self._software)

    def sample(self, workload: Workload, count: int, seed: int, **options: Any) -> "Future[list[Candidate]]":
        """Draw candidates in a build worker; see ``costmodel.spaces.sample_candidates``."""
        future: Future[list[Candidate]] = self._builders.schedule(
            sample_candidates, args=(workload, self._kind, count, seed), kwargs=options
        )
        return future

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Start building, and computing reference outputs. Safe to call from any thread."""
        with self._lock:
            for candidate in candidates:
                if candidate.workload.name not in self._references:
                    self._compute_reference(candidate.workload)
                if candidate.candidate_id not in self._builds:
                    self._builds[candidate.candidate_id] = self._builders.schedule(
                        build_kernel,
                        args=(candidate, self._kind, Path(self._folder.name)),
                        timeout=self._timeouts["build"],
                    )

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Build what is not built yet, and time each candidate on ``platform``."""
        self.prefetch(candidates)
        return [self._measure_one(candidate, platform, visit) for candidate in candidates]

    def close(self) -> None:
        """End the workers and delete the kernels."""
        for pool in (self._builders, self._device_worker):
            pool.stop()
            pool.join()
        self._folder.cleanup()

    def _measure_one(self, candidate: Candidate, platform: Platform, visit: int) -> Measurement:
        built = self._built(candidate)
        timed = Timed(built.outcome, error=built.error)
        if built.library is not None:
            timed = self._time(built.library, candidate, platform)
        return Measurement(
            candidate=candidate,
            platform=platform,
            visit=visit,
            kernel_hash=built.kernel_hash,
            measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
            **msgspec.structs.asdict(timed),
        )

    def _built(self, candidate: Candidate) -> Built:
        try:
            return self._builds[candidate.candidate_id].result()
        except TimeoutError:
            limit = self._timeouts["build"]
            return Built(Outcome.TIMEOUT, error=f"the build took more than {limit:g} s")
        except self._pebble.ProcessExpired as error:
            return Built(Outcome.COMPILE_ERROR, error=f"the build worker died: {error}")

    def _compute_reference(self, workload: Workload) -> None:
        self._references[workload.name] = self._builders.schedule(
            write_reference, args=(workload, Path(self._folder.name))
        )

    def _time(self, library: Path, candidate: Candidate, platform: Platform) -> Timed:
        try:
            reference = self._references[candidate.workload.name].result()
        except self._pebble.ProcessExpired as error:
            self._compute_reference(candidate.workload)  # for the next candidate
            return Timed(Outcome.COMPILE_ERROR, error=f"the worker died that computed the reference: {error}")
        job = self._device_worker.schedule(
            measure_kernel,
            args=(
                self._kind,
                self._threads,
                library,
                candidate.workload,
                reference,
                platform.sms_requested,
                self._timing,
            ),
            timeout=self._timeouts["run"],
        )
        try:
            timed: Timed = job.result()
        except TimeoutError:
            return Timed(Outcome.TIMEOUT, error=f"the kernel took more than {self._timeouts['run']:g} s")
        except self._pebble.ProcessExpired as error:
            return Timed(Outcome.LAUNCH_ERROR, error=f"the device worker died: {error}")
        if timed.outcome is Outcome.LAUNCH_ERROR and self._kind == "cuda":
            self._replace_device_worker()  # a CUDA error can stick to the context of its process
        return timed

    def _replace_device_worker(self) -> None:
        self._device_worker.stop()
        self._device_worker.join()
        self._device_worker = self._pool(1)

    def _pool(self, workers: int, initializer: Callable[[], None] | None = None) -> Any:
        return self._pebble.ProcessPool(workers, initializer=initializer, context=self._spawn)

    def _open(self) -> tuple[Device, dict[str, str]]:
        job = self._device_worker.schedule(
            describe_device, args=(self._kind, self._threads), timeout=_OPEN_TIMEOUT_S
        )
        try:
            described: tuple[Device, dict[str, str]] = job.result()
        except Exception as error:
            self.close()
            raise CostModelError(self._cannot_open(error)) from error
        return described

    def _cannot_open(self, error: Exception) -> str:
        return f"The {self._kind} device cannot be opened: {error}."

    def _ask(self, function: Callable[..., int], sms: int) -> int:
        job = self._device_worker.schedule(function, args=(self._kind, self._threads, sms))
        try:
            return int(job.result())
        except RuntimeError as error:
            raise CostModelError(
                f"A budget of {sms} {self._unit} cannot be granted on {self.device.name}: {error}."
            ) from error
