"""What the CUDA and the CPU runner share: persistent build workers and one device worker."""

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any, TypeVar

import msgspec

from costmodel.collect._base import Runner
from costmodel.collect._build import Built, Kind, build_kernel, start_build_worker
from costmodel.collect._cpu_device import cpu_threads
from costmodel.collect._device import Timed, describe_device, grant, measure_kernel, start_device_worker
from costmodel.collect._inputs import write_reference
from costmodel.collect._kernel_folder import KernelFolder
from costmodel.collect._timing import Timing
from costmodel.collect._workers import WorkerDiedError, Workers
from costmodel.errors import CostModelError, MissingExtraError
from costmodel.records import Candidate, Device, Isolation, Measurement, Outcome, Platform, Workload
from costmodel.spaces import sample_candidates

T = TypeVar("T")

# Opening a device takes TVM's import and, on CUDA, a context: seconds, minutes on a loaded machine.
_OPEN_TIMEOUT_S = 300.0
# Those that TVM looks for (tvm.support.cc.get_cc), after the variables CXX and CC.
_COMPILERS = ("g++", "gcc", "clang++", "clang", "c++", "cc")


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
            CostModelError: TVM or a C++ compiler is not installed, or the device cannot be opened.
        """
        _check_installed(kind)
        self._kind: Kind = kind
        self._timing = timing or Timing()
        self._timeouts = {"build": build_timeout_s, "run": run_timeout_s}
        self._folder = KernelFolder()
        self._threads = cpu_threads()
        builders = build_workers or max(1, self._threads - 1)
        self._builders = Workers(builders, self._folder.path, start_build_worker)
        self._device_worker = Workers(1, self._folder.path, partial(start_device_worker, kind, self._threads))
        self._builds: dict[str, Future[Built]] = {}
        self._references: dict[str, Future[Path]] = {}
        self._granted: dict[int, int] = {}
        self._lock = threading.Lock()
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
            self._granted[requested] = self._grant(requested)
        granted = self._granted[requested]
        isolation = "whole" if granted == self.device.sms and self._kind == "cuda" else self.isolation
        return Platform(self.device, isolation, requested, granted, self._software)

    def sample(self, workload: Workload, count: int, seed: int, **options: Any) -> "Future[list[Candidate]]":
        """Draw candidates in a build worker; see ``costmodel.spaces.sample_candidates``."""
        return self._builders.submit(sample_candidates, workload, self._kind, count, seed, **options)

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Start building, and computing reference outputs. Safe to call from any thread."""
        with self._lock:
            for candidate in candidates:
                if candidate.workload.name not in self._references:
                    self._compute_reference(candidate.workload)
                if candidate.candidate_id not in self._builds:
                    self._builds[candidate.candidate_id] = self._builders.submit(
                        build_kernel,
                        candidate,
                        self._kind,
                        self._folder.path,
                        timeout_s=self._timeouts["build"],
                    )

    def measure(
        self, candidates: Sequence[Candidate], platform: Platform, *, visit: int = 0
    ) -> list[Measurement]:
        """Build what is not built yet, and time each candidate on ``platform``."""
        self.prefetch(candidates)
        return [self._measure_one(candidate, platform, visit) for candidate in candidates]

    def close(self) -> None:
        """End the workers and delete the kernels."""
        self._builders.close()
        self._device_worker.close()
        self._folder.delete()

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
        except WorkerDiedError as error:
            return Built(Outcome.COMPILE_ERROR, error=f"the build worker died ({error.reason})")

    def _compute_reference(self, workload: Workload) -> None:
        self._references[workload.name] = self._builders.submit(write_reference, workload, self._folder.path)

    def _time(self, library: Path, candidate: Candidate, platform: Platform) -> Timed:
        try:
            reference = self._references[candidate.workload.name].result()
        except WorkerDiedError as error:
            self._compute_reference(candidate.workload)  # for the next candidate
            return Timed(Outcome.COMPILE_ERROR, error=f"the reference's worker died ({error.reason})")
        try:
            timed = self._on_device(
                measure_kernel,
                library,
                candidate.workload,
                reference,
                platform.sms_requested,
                self._timing,
            )
        except TimeoutError:
            return Timed(Outcome.TIMEOUT, error=f"the kernel took more than {self._timeouts['run']:g} s")
        except WorkerDiedError as error:
            return Timed(Outcome.LAUNCH_ERROR, error=f"the device worker died ({error.reason})")
        if timed.outcome is Outcome.LAUNCH_ERROR and self._kind == "cuda":
            self._device_worker.restart()  # a CUDA error can stick to the context of its process
        return timed

    def _on_device(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call a function of ``_device`` in the device worker; its time runs once the device is open."""
        limit = self._timeouts["run"]
        job = self._device_worker.submit(function, self._kind, self._threads, *arguments, timeout_s=limit)
        return job.result(_OPEN_TIMEOUT_S + limit)

    def _open(self) -> tuple[Device, dict[str, str]]:
        try:
            return self._on_device(describe_device)
        except Exception as error:
            self.close()
            raise CostModelError(self._cannot_open(error)) from error

    def _cannot_open(self, error: Exception) -> str:
        return f"The {self._kind} device cannot be opened: {error}."

    def _grant(self, sms: int) -> int:
        try:
            return self._on_device(grant, sms)
        except RuntimeError as error:
            raise CostModelError(
                f"A budget of {sms} {self._unit} cannot be granted on {self.device.name}: {error}."
            ) from error


def _check_installed(kind: Kind) -> None:
    """Check for TVM, and for the compiler that links its kernels.

    Raises:
        CostModelError: One of them is missing.
    """
    if find_spec("tvm") is None:
        raise MissingExtraError(f"Measuring on {kind}", "tvm")
    if not (os.environ.get("CXX") or os.environ.get("CC") or any(map(which, _COMPILERS))):
        raise CostModelError(
            f"Measuring on {kind} must have a C++ compiler to link kernels, but none of "
            f"{', '.join(_COMPILERS)} is on the PATH. Install one, or name it in CXX."
        )
