"""Builds of kernels and reference outputs, each done once, by whatever engine."""

import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec.structs import replace

from costmodel.collector._build import (
    build_on_worker,
    build_once,
    build_or_read,
    hash_artifact,
    prepare_build_worker,
    reference_name,
    write_reference,
)
from costmodel.collector._engine import Engine, EngineLostError, WorkerDiedError
from costmodel.collector._local_engine import LocalEngine
from costmodel.files import write_whole
from costmodel.kernels._artifact import Built
from costmodel.kernels._base import KernelSource
from costmodel.kernels._sources import source_of
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Outcome
from costmodel.records._platform import TargetKind
from costmodel.records._workload import Workload

S = TypeVar("S")
T = TypeVar("T")


def start_build_workers(
    sources: Sequence[KernelSource], kind: TargetKind, architecture: str, count: int, scratch: Path
) -> LocalEngine:
    """Processes here that have paid for imports and headers when their first job comes.

    Args:
        sources: Where kernels come from.
        kind: Kind of device to build for.
        architecture: Of the device.
        count: Processes; they start with the first job.
        scratch: Where temporary files go.
    """
    return LocalEngine(count, scratch, partial(prepare_build_worker, sources, kind, architecture))


class Builders:
    """Has an engine build candidates and compute reference outputs; each job is done once.

    Kernels stay in a subfolder of ``folder`` that is named by the architecture; a build that is there is not
    made again by another process, nor made twice at the same time where engines see the folder.
    """

    def __init__(  # noqa: PLR0913, PLR0917 (settings of one kind or another)
        self,
        engine: Engine,
        sources: Sequence[KernelSource],
        kind: TargetKind,
        architecture: str,
        folder: Path,
        timeout_s: float,
    ) -> None:
        """Make the folder.

        Args:
            engine: What builds, such as that of ``start_build_workers``; where it does not see the folder,
                files come back as bytes.
            sources: Where kernels come from.
            kind: Kind of device to build for.
            architecture: Of the device.
            folder: Where kernels and reference outputs go.
            timeout_s: Seconds after which a build is given up.
        """
        self._engine, self._sources = engine, sources
        self._kind: TargetKind = kind
        self._architecture = architecture
        self._folder, self._kernels = folder, folder / architecture
        self._kernels.mkdir(parents=True, exist_ok=True)
        self._timeout_s = timeout_s
        self._builds: dict[str, Future[Built]] = {}
        self._references: dict[str, Future[Path | None]] = {}
        self._lock = threading.Lock()

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Start building, what takes longest first, and computing reference outputs.

        Safe to call from any thread.
        """
        with self._lock:
            for candidate in sorted(candidates, key=compile_effort, reverse=True):
                self._start(candidate)

    def when_built(self, candidates: Sequence[Candidate], act: Callable[[], None]) -> None:
        """Start what is not started, and call ``act`` once, in the thread that sees the last of it done."""
        futures = [future for candidate in candidates for future in self._futures(candidate)]
        left, lock = [len(futures)], threading.Lock()

        def count_down(_: "Future[Any]") -> None:
            with lock:
                left[0] -= 1
                last = left[0] == 0
            if last:
                act()

        for future in futures:
            future.add_done_callback(count_down)

    def _futures(self, candidate: Candidate) -> "tuple[Future[Built], Future[Path | None]]":
        """The build of a candidate and the reference output of its workload."""
        with self._lock:
            self._start(candidate)
            return self._builds[candidate.candidate_id], self._references[reference_name(candidate)]

    def _start(self, candidate: Candidate) -> None:
        reference, id_ = reference_name(candidate), candidate.candidate_id
        source = source_of(candidate, self._sources)
        if reference not in self._references or _has_failed(self._references[reference]):
            self._references[reference] = self._submit_reference(source, candidate.workload, reference)
        if id_ not in self._builds:
            self._builds[id_] = self._submit_build(source, candidate)

    def _submit_reference(self, source: KernelSource, workload: Workload, name: str) -> "Future[Path | None]":
        if self._engine.shares_files:
            return self._engine.submit(write_reference, source, workload, name, self._folder)
        if (known := self._folder / name).exists():
            return _done(known)
        return submit_elsewhere(
            self._engine,
            write_reference,
            source,
            workload,
            name,
            folder=self._folder,
            moved=lambda path: path and self._folder / path.name,
        )

    def _submit_build(self, source: KernelSource, candidate: Candidate) -> "Future[Built]":
        job = source, candidate, self._kind, self._architecture
        if self._engine.shares_files:
            return self._engine.submit(build_once, *job, self._kernels, timeout_s=self._timeout_s)
        if (self._kernels / f"{candidate.candidate_id}{source.artifact}").exists():
            return _done(build_or_read(*job, self._kernels))  # which only reads it
        return submit_elsewhere(
            self._engine,
            build_on_worker,
            *job,
            folder=self._kernels,
            moved=lambda built: replace(built, library=built.library and self._kernels / built.library.name),
            timeout_s=self._timeout_s,
        )

    def start_over(self) -> None:
        """Know of no build any more, when nobody waits for one: what is in the folder is found there."""
        with self._lock:
            self._builds.clear()
            self._references.clear()
        self._kernels.mkdir(parents=True, exist_ok=True)

    def close(self) -> None:
        """Cancel what is not done. May be called twice."""
        with self._lock:
            unfinished: list[Future[Any]] = [*self._builds.values(), *self._references.values()]
        for future in unfinished:
            future.cancel()

    def built(self, candidate: Candidate) -> "tuple[Built, Path | None]":
        """What the build of a candidate gave, once it is done, and its workload's reference output.

        What goes wrong is the outcome of the candidate. Where nobody knows the output there is no reference.
        An artifact that is not what its builder wrote is not given: it is deleted, and built again when it is
        asked for again.

        Raises:
            EngineLostError: The engine was lost, which says nothing of the candidate.
        """
        build, reference = self._futures(candidate)
        try:
            built = build.result()
        except TimeoutError:
            return Built(Outcome.TIMEOUT, error=f"the build took more than {self._timeout_s:g} s"), None
        except WorkerDiedError as error:
            return Built(Outcome.COMPILE_ERROR, error=f"the build worker died ({error.reason})"), None
        if built.sha256 and built.library and (found := hash_artifact(built.library)) != built.sha256:
            self._forget(candidate)
            return Built(
                Outcome.COMPILE_ERROR,
                error=f"the artifact must be as it was built (sha256 {built.sha256[:12]}), but it came as "
                f"{found[:12]}: it is not run",
            ), None
        try:
            return built, reference.result()
        except EngineLostError:
            raise
        except Exception as error:  # noqa: BLE001 (no reference, no measurement; the next candidate tries again)
            return Built(Outcome.COMPILE_ERROR, error=f"no reference output: {error}"[:300]), None

    def _forget(self, candidate: Candidate) -> None:
        """Leave nothing of a build."""
        with self._lock:
            self._builds.pop(candidate.candidate_id, None)
        for path in self._kernels.glob(f"{candidate.candidate_id}.*"):
            path.unlink()


def compile_effort(candidate: Candidate) -> int:
    """A number that grows with the time that a candidate takes to compile: code that is unrolled.

    Its rank correlation with NVRTC's time is .71 over 128 random kernels of four workloads. With 15 processes
    these take 10.4 s in this order, 14.3 s in any, and 10.2 s at best.
    """
    return sum(
        (launch.unroll_steps + 1) * (launch.local_bytes + 1) * max(1, launch.vthreads)
        for launch in candidate.launches
    )


def _done(result: T) -> "Future[T]":
    future: Future[T] = Future()
    future.set_result(result)
    return future


def _has_failed(future: "Future[Any]") -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None)


class Made(NamedTuple, Generic[T]):
    """What a function gave, and the files that it left.

    Attributes:
        result: What it returned; paths in it are those of a folder that is gone.
        files: Contents by name, what was written last at the end.
    """

    result: T
    files: dict[str, bytes]


def make_elsewhere(make: Callable[..., T], *arguments: Any) -> Made[T]:
    """Call ``make(*arguments, folder)`` with a new folder; runs in a worker."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = make(*arguments, folder)
        written = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return Made(result, {path.name: path.read_bytes() for path in written})


def submit_elsewhere(
    engine: Engine,
    make: Callable[..., T],
    *arguments: Any,
    folder: Path,
    moved: Callable[[T], T],
    timeout_s: float | None = None,
) -> Future[T]:
    """Have ``make(*arguments, folder)`` called by an engine that does not see ``folder``.

    Args:
        engine: Which calls.
        make: What makes files in a folder, its last argument.
        arguments: Its others.
        folder: Where the files go.
        moved: Gives what ``make`` returned the paths of ``folder``.
        timeout_s: Seconds after which the call is given up.
    """
    made = engine.submit(make_elsewhere, make, *arguments, timeout_s=timeout_s)
    return _then(made, partial(_keep, folder, moved))


def _keep(folder: Path, moved: Callable[[T], T], made: Made[T]) -> T:
    for name, content in made.files.items():
        write_whole(folder / name, content)
    return moved(made.result)


def _then(first: Future[T], act: Callable[[T], S]) -> Future[S]:
    """What ``act`` makes of the result of a future; cancelling it cancels the first."""
    second: Future[S] = Future()

    def pass_on(first: Future[T]) -> None:
        if first.cancelled():
            second.cancel()
        if not second.set_running_or_notify_cancel():
            return
        try:
            second.set_result(act(first.result()))
        except Exception as error:  # noqa: BLE001 (it goes to whoever waits)
            second.set_exception(error)

    second.add_done_callback(lambda second: first.cancel() if second.cancelled() else None)
    first.add_done_callback(pass_on)
    return second
