"""A worker: takes tasks of a store, one after the other, and measures."""

import errno
import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec.structs import replace
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError

from costmodel.collector._engine import Engine, EngineLostError
from costmodel.collector._meter import METER, MeteredStage
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.errors import CostModelError, DeviceUnavailableError, MissingExtraError
from costmodel.files import check_not_open_to_all
from costmodel.liveness import renewing
from costmodel.reading import exists, is_folder
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.records._store import read_records
from costmodel.service._building import Building
from costmodel.service._database import explain_failure
from costmodel.service._job import CampaignTask, Job, TuneTask
from costmodel.service._leases import LEASE_S, Lease, LeaseLostError
from costmodel.service._status import Answer
from costmodel.service._store import JobStore, TaskProgress
from costmodel.service._usage import Capacity, reporting
from costmodel.tuning._collect import collect
from costmodel.tuning._places import Cpu, Gpu, OtherDeviceError, Place, Replay
from costmodel.tuning._request import Prior, SearchSettings
from costmodel.tuning._tune import tune

# A worker with nothing to do looks for work so often.
_LOOK_EVERY_S = 2.0
_RENEWALS = 4
# Where measurements take less, the store hears of some.
_TELL_EVERY_S = 0.5
# What this worker lacks, and another may have.
_LACKING = (DeviceUnavailableError, MissingExtraError, EngineLostError, OperationalError, InterfaceError)
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)


@dataclass(frozen=True)
class Slice:
    """What a worker did on a task.

    Attributes:
        job: Id of the job.
        name: Name of the task.
        progress: Result of the slice; None if the task was given up.
        reason: Why the task was given up; empty if it was not.
    """

    job: int
    name: str
    progress: TaskProgress | None
    reason: str = ""


def work(  # noqa: PLR0913 (settings, all but one with defaults)
    store: JobStore,
    *,
    runner: str | None = None,
    once: bool = False,
    records: Path | str = Path("out/jobs"),
    engine: Engine | str | None = None,
    device: str | None = None,
    lanes: bool = False,
    campaigns: Path | str | None = None,
    on_slice: Callable[[Slice], None] = lambda _: None,
) -> int:
    """Work on the tasks of a store, until none is left (with ``once``) or indefinitely.

    Args:
        store: The store.
        runner: Take only jobs measured by this runner: ``"replay"``, ``"cpu"`` or ``"cuda"``. Default: any.
        once: Return when there is no task left to take, instead of waiting for new jobs.
        records: Folder of the record stores, one per task, that hold each measurement of a device. Its
            subfolder ``kernels`` keeps the kernels built for tuning, so that workers that share the folder
            build no kernel twice.
        engine: Where kernels for a device are built: an engine, which is not closed, or the address of one,
            such as ``tls://host:8786``, which is waited for and reopened if it is lost. Default: processes on
            this machine, which are kept from one task to the next.
        device: Take only tasks for this device, and those that name none. Default: the GPU here, once it was
            opened; a replay measures any.
        lanes: Measure tuning tasks on a GPU alongside other workers, see ``costmodel.tune``. Default: the
            workers of a device take turns.
        campaigns: Folder in which submitted campaigns may write, at any depth. Default: anywhere.
        on_slice: Called after each lease.

    Returns:
        Number of leases.

    Raises:
        CostModelError: If the store does not answer, or is a file that every user may write to; if no engine
            can be opened; or if this machine lacks what a job needs: a device or a package. The task is then
            left to other workers.
        OSError: If the disk of this machine is full. The task is left to other workers.
    """
    if "://" not in store.place:
        check_not_open_to_all(Path(store.place))
    count, task = 0, MeteredStage("task", socket.gethostname())
    with closing(Building(engine)) as building, reporting(lambda: store.report_usage({task: Capacity(1)})):
        means = _Means(Path(records), building, lanes, None if campaigns is None else Path(campaigns))
        while True:
            lease = store.lease(runner=runner, device=device, gpu=building.kept.gpu)
            if lease is not None:
                count += 1
                try:
                    with METER.timing(task):
                        done = _worked(store, lease, means)
                    on_slice(done)
                except EngineLostError as error:
                    on_slice(Slice(lease.job, f"task {lease.position}", None, str(error)))
                    building.reopen(error)
            elif once:
                return count
            else:
                building.rest()
                time.sleep(_LOOK_EVERY_S)


@dataclass(frozen=True)
class _Means:
    """What a worker works with.

    Attributes:
        records: Where records of tuning tasks go.
        building: Who builds.
        lanes: Whether it measures beside others.
        campaigns: Where campaigns may write; None for anywhere.
    """

    records: Path
    building: Building
    lanes: bool
    campaigns: Path | None


def _worked(store: JobStore, lease: Lease, means: _Means) -> Slice:
    """Do what a lease is for, and say in the store what came of it."""
    name = f"task {lease.position}"
    try:
        with _renewed(store, lease) as made:
            job = store.job(lease.job)
            name = job.tasks[lease.position].name
            progress = _done(store, job, lease, means, made)
        store.end(lease, progress)
    except (LeaseLostError, OtherDeviceError) as error:
        _let_go(store, lease)
        return Slice(lease.job, name, None, str(error))
    except Exception as error:  # whatever a task does costs that task at most
        if lacks_means(error):
            _let_go(store, lease)
            if isinstance(error, CostModelError | OSError):
                raise
            raise explain_failure(store.place, error) from error
        reason = str(error) if isinstance(error, CostModelError) else f"{type(error).__name__}: {error}"
        return _failed(store, lease, name, reason)
    except BaseException:  # interrupted: another worker may go on at once
        _let_go(store, lease)
        raise
    return Slice(lease.job, name, progress)


def _let_go(store: JobStore, lease: Lease) -> None:
    """Leave a task to others at once, unless the database does not answer either; then they wait."""
    with suppress(CostModelError):
        store.end(lease)


def _failed(store: JobStore, lease: Lease, name: str, reason: str) -> Slice:
    try:
        store.fail(lease, reason)
    except LeaseLostError as error:
        reason = str(error)
    return Slice(lease.job, name, None, reason)


def _done(
    store: JobStore, job: Job, lease: Lease, means: _Means, made: Callable[[Any], None]
) -> TaskProgress:
    """Do a task as far as a lease says."""
    task = job.tasks[lease.position]
    if isinstance(task, CampaignTask):
        return _collected(task, means, made)
    return _tuned(store, job, task, lease, means, made)


def _tuned(  # noqa: PLR0913, PLR0917 (what is tuned, with what, and where it is kept)
    store: JobStore,
    job: Job,
    task: TuneTask,
    lease: Lease,
    means: _Means,
    made: Callable[[Any], None],
) -> TaskProgress:
    settings = job.settings
    result = tune(
        task.workload,
        sms=task.sms,
        trials=lease.trials,
        sources=settings.source,
        on=_place(job, task, lease, means),
        prior=Prior(
            settings.model,
            settings.learn_from,
            settings.start_from,
            settings.learner,
            first=_best_elsewhere(store, job, task, lease),
        ),
        search=SearchSettings(
            screened=settings.screened,
            stop_gain=settings.stop_gain,
            study=store.study_place(lease),
            study_name=lease.key,
            shares_study=False,  # whoever has the lease searches alone
            seed=settings.seed,
        ),
        on_trial=made,
    )
    (latency_s,), candidate = result.best.latency_s, result.best.candidate
    trials = max(len(search.result.trials) for search in result.searches)
    return TaskProgress(
        trials=trials,
        answer=Answer(result.answer, latency_s, candidate),
        expected_gain=result.expected_gain,
        is_done=trials < lease.trials,
    )


def _best_elsewhere(store: JobStore, job: Job, task: TuneTask, lease: Lease) -> tuple[Candidate, ...]:
    """What is best so far on the job's other devices, of the same workload and SMs."""
    if task.device is None:
        return ()
    others = [
        told.answer
        for other, told in zip(job.tasks, store.show(lease.job).tasks, strict=True)
        if isinstance(other, TuneTask) and other != task and replace(other, device=task.device) == task
    ]
    return tuple(answer.candidate for answer in others if answer and answer.candidate)


def _place(job: Job, task: TuneTask, lease: Lease, means: _Means) -> Place:
    """Say where a task measures, and where its measurements and kernels are kept."""
    if job.runner == "replay":
        return Replay(job.settings.replay, task.device or job.settings.device)
    if job.settings.replay is not None or job.settings.device is not None:
        raise CostModelError(
            f"A job that measures with the runner {job.runner} must name no records to replay and no device, "
            "but this one does. Leave them out."
        )
    records, kernels = means.records / f"{lease.key}.jsonl", means.records / "kernels"
    engine, kept = means.building.engine(), means.building.kept
    if job.runner == "cpu":
        return Cpu(records, kernels, engine, kept)
    return Gpu(records, kernels, engine, means.lanes, kept, task.device)


def _collected(task: CampaignTask, means: _Means, made: Callable[[Any], None]) -> TaskProgress:
    _check_is_within(Path(task.out), means.campaigns)
    store = CampaignFolder(Path(task.out)).store
    _check_is_of_campaigns(Path(task.out))
    earlier = iter(range(sum(1 for _ in read_records(store)) if exists(store) else 0))

    def tell(measurement: Measurement) -> None:
        if next(earlier, None) is None:  # those of earlier leases come first
            made(measurement)

    found = collect(task.campaign, task.out, engine=means.building.engine(), on_measurement=tell)
    return TaskProgress(found.stored, Answer((found.measured_on, found.sentence)), is_done=found.finished)


def _check_is_within(folder: Path, root: Path | None) -> None:
    """Check that a submitter names a folder in which this worker lets campaigns write, links followed.

    Raises:
        CostModelError: It is none.
    """
    if root is not None and not folder.resolve().is_relative_to(root.resolve()):
        raise CostModelError(
            f"A campaign for this worker must write to a folder in {root}, but asks for {folder}. Submit it "
            "with another `--out`."
        )


def _check_is_of_campaigns(folder: Path) -> None:
    """Check that a submitter names a folder that holds nothing but a campaign's files.

    Raises:
        CostModelError: If it holds others.
    """
    names = {path.name for path in folder.iterdir()} if is_folder(folder) else set()
    if names and not names & {"campaign.json", "measurements.jsonl"}:
        raise CostModelError(
            f"The folder of a campaign must be new, empty or that of a campaign, but {folder} holds other "
            "files: submit the job with another one."
        )


@contextmanager
def _renewed(store: JobStore, lease: Lease) -> Iterator[Callable[[Any], None]]:
    """Hold a lease until the end, and give what is to be told of each measurement.

    That raises ``LeaseLostError`` where the job was cancelled, or another worker has the task.
    """
    made, told_at = 0, -math.inf

    def tell(_: Any) -> None:
        nonlocal made, told_at
        made += 1
        if time.monotonic() - told_at < _TELL_EVERY_S:
            return
        told_at = time.monotonic()
        if not store.renew(lease, made):
            raise LeaseLostError(f"Job {lease.job} was cancelled, or another worker has this task.")

    with renewing(lambda: store.renew(lease, made), LEASE_S / _RENEWALS):
        yield tell


def lacks_means(error: BaseException | None) -> bool:
    """Tell whether another worker may do what this one fails at.

    So it is where a device, a package, the engine, the database or room on the disk is missing here. What met
    that may have been told in other words by whoever called it.
    """
    while error is not None:
        if isinstance(error, _LACKING) or (isinstance(error, OSError) and error.errno in _DISK):
            return True
        if isinstance(error, DBAPIError) and error.connection_invalidated:  # a server that ends, by any name
            return True
        error = error.__cause__ or error.__context__
    return False
