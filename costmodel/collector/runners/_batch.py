"""Measures a batch of requests on one bench; what fails costs its candidate, not the others."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from time import sleep
from typing import TypeVar

import msgspec

from costmodel.collector._engine import WorkerDiedError
from costmodel.collector.device._device import time_module
from costmodel.collector.device._job import DeviceSetup, KernelFaultError, KernelJob, ModuleJob
from costmodel.collector.device._timing import Timed, Timing
from costmodel.collector.runners._base import Request
from costmodel.collector.runners._bench import Bench, DeviceJobs
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels._sources import source_of
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS, Measurement, Outcome, is_passing_failure
from costmodel.records._platform import Platform

K = TypeVar("K")
T = TypeVar("T")
Builds = Mapping[str, tuple[Built, Path | None]]
Ready = Mapping[str, tuple[Path, Path | None]]  # artifact and reference outputs by candidate id

# Between attempts at a kernel that failed because others had the memory or the device.
_PAUSES_S = (1.0, 5.0)

FAULTS = (TimeoutError, WorkerDiedError, KernelFaultError)


class BatchTimer:
    """Times the kernels of requests, side by side where they share a workload.

    Args:
        sources: Where the kernels are from.
        timing: How to time.
        limit_s: Seconds after which a job on the device is given up.
        setup_of: How a process opens the device to measure a platform.
        jobs: What the process of a device is asked to do.
    """

    def __init__(
        self,
        sources: Sequence[KernelSource],
        timing: Timing,
        limit_s: float,
        setup_of: Callable[[Platform], DeviceSetup],
        jobs: DeviceJobs,
    ) -> None:
        self._sources = sources
        self._timing, self._limit_s, self._setup_of, self._jobs = timing, limit_s, setup_of, jobs

    def measure(self, requests: Sequence[Request], builds: Builds, bench: Bench) -> list[Measurement]:
        """Measure requests: one measurement each, in order, failures included.

        Args:
            requests: What to measure.
            builds: By candidate id, what its build gave and where its workload's reference output is.
            bench: Where.
        """
        ready = {
            id_: (built.library, reference) for id_, (built, reference) in builds.items() if built.library
        }
        timed: dict[str, Timed] = {}
        for request in requests:
            if request.candidate.candidate_id not in ready:
                built, _ = builds[request.candidate.candidate_id]
                timed[request.key] = Timed(built.outcome, error=built.error)
        working = [request for request in requests if request.key not in timed]
        for group in _grouped(working, self._job_of).values():
            timed |= self._time(group, ready, bench)
        return [_measurement(r, builds[r.candidate.candidate_id][0], timed[r.key]) for r in requests]

    def _job_of(self, request: Request) -> tuple[DeviceSetup, str, str, int, int]:
        """What requests must share to be timed in one job."""
        source = source_of(request.candidate, self._sources)
        setup, workload = self._setup_of(request.platform), request.candidate.workload.name
        return setup, source.name, workload, request.partitions, request.lane_sms

    def _time(
        self,
        requests: Sequence[Request],
        ready: Ready,
        bench: Bench,
        pauses_s: Sequence[float] = _PAUSES_S,
    ) -> dict[str, Timed]:
        """Time requests that share a job, by their keys; if it fails, each candidate by itself.

        A candidate by itself that fails in passing is tried again after each of the pauses.
        """
        setup = self._setup_of(requests[0].platform)
        try:
            return self._run(requests, ready, bench, setup)
        except FAULTS as error:
            failure = failure_of(error, bench, setup, self._limit_s)
        if requests[0].lane_sms:  # a kernel of another process may have failed, and ended this one too
            failure = msgspec.structs.replace(failure, co_runners=UNKNOWN_CO_RUNNERS)
        alone = _grouped(requests, lambda request: request.candidate.candidate_id).values()
        if len(alone) == 1 and pauses_s and is_passing_failure(failure.outcome, failure.error):
            sleep(pauses_s[0])
            return self._time(requests, ready, bench, pauses_s[1:])
        if len(alone) == 1:
            return dict.fromkeys([request.key for request in requests], failure)
        timed: dict[str, Timed] = {}
        for group in alone:
            timed |= self._time(group, ready, bench)
        return timed

    def _run(
        self, requests: Sequence[Request], ready: Ready, bench: Bench, setup: DeviceSetup
    ) -> dict[str, Timed]:
        """What one job for requests of one workload and one setup gives, by their keys."""
        first, libraries = requests[0], defaultdict(list)
        _, reference = ready[first.candidate.candidate_id]
        for request in requests:
            library, _ = ready[request.candidate.candidate_id]
            libraries[request.platform.sms_requested].append(library)
        job = KernelJob(
            source_of(first.candidate, self._sources),
            first.candidate.workload,
            reference,
            {sms: tuple(paths) for sms, paths in libraries.items()},
            self._timing,
            first.partitions,
        )
        bench.opened(setup)  # a process that died while it was idle is no fault of a kernel
        bench.call(self._jobs.prepare, setup, job, limit_s=self._limit_s)
        with bench.taken(setup, *first.lanes) as sms:
            on = msgspec.structs.replace(job, lane=sms if first.lane_sms else None)
            found = bench.call(self._jobs.time, setup, on, limit_s=self._limit_s)
        wrong = bench.call(self._jobs.find_wrong, setup, on, limit_s=self._limit_s)
        return {
            r.key: wrong.get(id_ := r.candidate.candidate_id, found[r.platform.sms_requested][id_])
            for r in requests
        }


def time_module_on(bench: Bench, setup: DeviceSetup, job: ModuleJob, limit_s: float) -> Timed:
    """Time one module of any kind; a failure is an outcome."""
    try:
        with bench.taken(setup):
            return bench.call(time_module, setup, job, limit_s=limit_s)
    except FAULTS as error:
        return failure_of(error, bench, setup, limit_s)


def failure_of(error: Exception, bench: Bench, setup: DeviceSetup, limit_s: float) -> Timed:
    """What a job that raised one of ``FAULTS`` says of its only kernel; the device is made usable again."""
    if isinstance(error, TimeoutError):
        return Timed(Outcome.TIMEOUT, error=f"it took more than {limit_s:g} s on the device")
    if isinstance(error, WorkerDiedError):
        return Timed(Outcome.LAUNCH_ERROR, error=f"the device worker died ({error.reason})")
    bench.restart(setup)
    return Timed(Outcome.LAUNCH_ERROR, error=str(error))


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """Items by key, in order of appearance."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def _measurement(request: Request, built: Built, timed: Timed) -> Measurement:
    return Measurement(
        candidate=request.candidate,
        platform=request.platform,
        visit=request.visit,
        kernel_hash=built.kernel_hash,
        resources=built.resources,
        measured_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        **msgspec.structs.asdict(timed),
    )
