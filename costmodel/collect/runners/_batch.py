"""Measures a batch of requests on one bench; what fails costs its candidate, not the others."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from costmodel.collect.build import Built
from costmodel.collect.device import (
    DeviceSetup,
    KernelFaultError,
    KernelJob,
    ModuleJob,
    Timed,
    Timing,
    time_job,
    time_module,
)
from costmodel.collect.processes import WorkerDiedError
from costmodel.collect.runners._base import Request
from costmodel.collect.runners._bench import Bench
from costmodel.records import Measurement, Outcome, Platform

K = TypeVar("K")
T = TypeVar("T")
Builds = Mapping[str, tuple[Built, Path | None]]

FAULTS = (TimeoutError, WorkerDiedError, KernelFaultError)


class BatchTimer:
    """Times the kernels of requests, side by side where they share a workload.

    Args:
        timing: How to time.
        limit_s: Seconds after which a job on the device is given up.
        setup_of: How a process opens the device to measure a platform.
    """

    def __init__(self, timing: Timing, limit_s: float, setup_of: Callable[[Platform], DeviceSetup]) -> None:
        self._timing, self._limit_s, self._setup_of = timing, limit_s, setup_of

    def measure(self, requests: Sequence[Request], builds: Builds, bench: Bench) -> list[Measurement]:
        """Measure requests: one measurement each, in order, failures included.

        Args:
            requests: What to measure.
            builds: By candidate id, what its build gave and where its workload's reference output is.
            bench: Where.
        """
        timed: dict[str, Timed] = {}
        working = []
        for request in requests:
            built, reference = builds[request.candidate.candidate_id]
            if built.library is None or reference is None:
                timed[request.key] = Timed(built.outcome, error=built.error)
            else:
                working.append(request)
        for group in _grouped(working, self._job_of).values():
            timed |= self._time(group, builds, bench)
        return [_measurement(r, builds[r.candidate.candidate_id][0], timed[r.key]) for r in requests]

    def _job_of(self, request: Request) -> tuple[DeviceSetup, str, int]:
        """What requests must share to be timed in one job."""
        return self._setup_of(request.platform), request.candidate.workload.name, request.partitions

    def _time(self, requests: Sequence[Request], builds: Builds, bench: Bench) -> dict[str, Timed]:
        """Time requests that share a job, by their keys; if it fails, each candidate by itself."""
        setup = self._setup_of(requests[0].platform)
        try:
            return self._run(requests, builds, bench, setup)
        except FAULTS as error:
            failure = failure_of(error, bench, setup, self._limit_s)
        alone = _grouped(requests, lambda request: request.candidate.candidate_id).values()
        if len(alone) == 1:
            return dict.fromkeys([request.key for request in requests], failure)
        timed: dict[str, Timed] = {}
        for group in alone:
            timed |= self._time(group, builds, bench)
        return timed

    def _run(
        self, requests: Sequence[Request], builds: Builds, bench: Bench, setup: DeviceSetup
    ) -> dict[str, Timed]:
        ids = list(dict.fromkeys(request.candidate.candidate_id for request in requests))
        by_sms = _grouped(requests, lambda request: request.platform.sms_requested)
        groups = tuple(
            (sms, tuple(ids.index(request.candidate.candidate_id) for request in group))
            for sms, group in by_sms.items()
        )
        libraries = tuple(path for id_ in ids if (path := builds[id_][0].library))
        reference = builds[ids[0]][1]
        assert reference is not None
        job = KernelJob(
            libraries,
            requests[0].candidate.workload,
            reference,
            groups,
            self._timing,
            requests[0].partitions,
        )
        found = bench.call(time_job, setup, job, limit_s=self._limit_s)
        return {
            request.key: timed
            for group, answers in zip(by_sms.values(), found, strict=True)
            for request, timed in zip(group, answers, strict=True)
        }


def time_module_on(bench: Bench, setup: DeviceSetup, job: ModuleJob, limit_s: float) -> Timed:
    """Time one module of any kind; a failure is an outcome."""
    try:
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
