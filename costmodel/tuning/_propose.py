"""``propose``: choose the kernels of a campaign by models of other workloads, without a device."""

from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from costmodel.arguments import check_path
from costmodel.collector._build import prepare_build_worker
from costmodel.collector._engine import Engine
from costmodel.collector._local_engine import LocalEngine
from costmodel.collector.campaign._config import CampaignConfig, find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.kernels._base import KernelSource
from costmodel.kernels._design_space import sample_from_starts
from costmodel.kernels._machine_code import MachineCode, machine_code
from costmodel.kernels.metaschedule._source import MetaSchedule, compile_cubin
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Device, Platform, part_of
from costmodel.records._workload import Workload
from costmodel.report._progress import Progress
from costmodel.search._propose import screen_candidates
from costmodel.search.samplers._staged import COMPILED_PER_TRIAL
from costmodel.search.spaces._compiled import CompiledSpace
from costmodel.search.spaces._kernel import KernelSpace
from costmodel.threads import cpu_threads
from costmodel.transfer.prediction._devices import device_named
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.tuning._knowledge import Knowledge, from_model

_COMPILE_LIMIT_S = 60.0  # of one kernel, after which it counts as one that cannot be built


class Proposed(msgspec.Struct, frozen=True):
    """The result of ``propose``.

    Attributes:
        folder: Folder of the campaign.
        kernels: Number of kernels chosen per workload, including earlier calls.
        failed: Why no kernels could be chosen, by workload.
    """

    folder: str
    kernels: dict[str, int]
    failed: dict[str, str]


class _ProposalRequest(NamedTuple):
    """What a worker needs to choose the kernels of a workload."""

    config: CampaignConfig
    folder: Path
    model: Path
    compiled: Path | None
    platforms: tuple[Platform, ...]


def propose(  # noqa: PLR0913 (settings, all but three with defaults)
    campaign: CampaignConfig | Path | str,
    out: Path | str,
    model: Path | str,
    *,
    compiled: Path | str | None = None,
    device: str | None = None,
    workers: int | None = None,
) -> Proposed:
    """Choose the kernels of a campaign by a model trained on other workloads, without a device.

    The first round is drawn at random, as in ``collect``. Later rounds contain kernels that the model expects
    to be good at the SM budgets of ``kernels.good_at`` (see ``costmodel.search.screen_candidates``), or
    random ones if it does not know their parameters. Call ``collect`` with the same folder to measure them.
    Repeat a call that was stopped to continue it.

    Args:
        campaign: A campaign, the path of its file, or the name of a shipped one.
        out: Folder of the campaign.
        model: File of a trained model, as written by ``costmodel train``.
        compiled: File of a model that reads what a compiler made of TVM's kernels. Four are compiled for each
            that is chosen, which takes a second of a core each, and it chooses among them. Default: the first
            model chooses.
        device: Name of the device that will measure. Default: the only device that the model learned from.
        workers: Number of processes. Default: one per hardware thread.

    Raises:
        CostModelError: The campaign is invalid, the folder belongs to another campaign, the model cannot be
            read, the device is unknown or does not suit the campaign, or the model of compiled kernels
            learned from other architectures.
    """
    config, folder = find_campaign(campaign), CampaignFolder(check_path("out", out))
    on = device_named(device, load_model(model).metadata.devices)
    if on.kind != config.runner:
        raise CostModelError(
            f"The device must be one that a {config.runner} campaign measures on, but got {on.name}, which "
            f"runs {on.kind}. Name another one, or give a model that learned from one."
        )
    if compiled is not None:
        _check_architecture(load_model(compiled), on)
    platforms = tuple(part_of(on, sms) for sms in config.kernels.good_at or config.sms)
    folder.claim(config)
    looks = None if compiled is None else Path(compiled)
    request = _ProposalRequest(config, folder.path, Path(model), looks, platforms)
    kernels: dict[str, int] = {}
    failed: dict[str, str] = {}
    count = workers or cpu_threads()
    with (
        ThreadPoolExecutor(count) as waiting,
        closing(LocalEngine(count)) as engine,  # closed first: after an interrupt nothing is waited for
        Progress("choosing", len(config.workloads)) as progress,
    ):
        jobs = {waiting.submit(_propose_for, request, engine, w): w.name for w in config.parsed_workloads}
        for job in as_completed(jobs):
            kernels[jobs[job]], reason = _count_chosen(job)
            failed |= {jobs[job]: reason} if reason else {}
            progress.advance(jobs[job])
    return Proposed(str(folder.path), {name: kernels[name] for name in sorted(kernels)}, failed)


def _check_architecture(compiled: Model, on: Device) -> None:
    """Refuse a model of other machine code than that of a device.

    Raises:
        CostModelError: It is one.
    """
    known = sorted({each.architecture for each in compiled.metadata.devices})
    if on.architecture not in known:
        raise CostModelError(
            f"A model of compiled kernels must have learned from {on.architecture}, the architecture of "
            f"{on.name}, but {compiled.path} learned from {', '.join(known)}. Leave it out."
        )


def _count_chosen(job: "Future[int]") -> tuple[int, str]:
    """How many kernels were chosen, and why none could be."""
    error = job.exception()
    return (0, last_line(error)) if error else (job.result(), "")


def _propose_for(request: _ProposalRequest, engine: Engine, workload: Workload) -> int:
    """Choose the kernels of a workload, round by round; what takes time runs in workers."""
    folder, known = CampaignFolder(request.folder), list[Candidate]()
    for round_ in range(request.config.kernels.rounds + 1):
        chosen = folder.proposals(workload, round_)
        if chosen is None:
            chosen = _propose_round(request, engine, workload, round_, known)
            folder.write_proposals(workload, round_, chosen)
        known += chosen
    return len(known)


def _propose_round(
    request: _ProposalRequest, engine: Engine, workload: Workload, round_: int, known: Sequence[Candidate]
) -> list[Candidate]:
    """The candidates of a round, of every source that makes the workload."""
    drawn = request, workload, round_, tuple(known)
    named: list[Candidate] = engine.submit(_named, *drawn).result()
    if request.compiled is None or not round_:
        return named
    architecture = request.platforms[0].device.architecture
    counts = {
        each.candidate_id: engine.submit(_count, each, architecture, timeout_s=_COMPILE_LIMIT_S)
        for each in named
        if not each.family
    }
    failed = [error for job in counts.values() if (error := job.exception())]
    if counts and len(failed) == len(counts):
        raise CostModelError(
            f"Kernels of {workload.name} must be compiled, but none can be: {last_line(failed[0])}"
        )
    code = {id_: job.result() for id_, job in counts.items() if not job.exception()}
    chosen: list[Candidate] = engine.submit(_best_compiled, *drawn, named, code).result()
    return chosen


class _Choice(NamedTuple):
    """What is chosen from of one source, and by what.

    Attributes:
        space: The space on all platforms, in the columns of the first model.
        known: Candidates of the source that are known already.
        decided: The model that knows decisions.
        compiled: The model that reads machine code.
        seed: Seed of the round.
    """

    space: KernelSpace
    known: list[Candidate]
    decided: Knowledge
    compiled: Knowledge
    seed: int


def _choices(
    request: _ProposalRequest, workload: Workload, round_: int, known: Sequence[Candidate]
) -> list[tuple[KernelSource, _Choice]]:
    """What is chosen from, of every source that makes the workload."""
    found, config = [], request.config
    for source in config.open_sources():
        if source.makes(workload, config.runner):
            space = KernelSpace(source.space(workload, config.runner), *request.platforms)
            decided = from_model(_load_once(request.model), space.family, None)
            compiled = Knowledge()
            if request.compiled and not space.family:
                compiled = from_model(_load_once(request.compiled), space.family, None)
            own = [candidate for candidate in known if source.is_of(candidate)]
            seed = config.draw_seed(workload, round_)
            space = space.in_columns(decided.columns)
            found.append((source, _Choice(space, own, decided, compiled, seed)))
    return found


def _named(
    request: _ProposalRequest, workload: Workload, round_: int, known: Sequence[Candidate]
) -> list[Candidate]:
    """What decisions choose; of kernels that are looked at when compiled, several times as many."""
    plan, chosen = request.config.kernels, list[Candidate]()
    for _, choice in _choices(request, workload, round_, known):
        model, space = choice.decided.model, choice.space
        if round_ == 0 or model is None:
            count = plan.per_round if round_ else plan.random
            chosen += sample_from_starts(space.space, count, choice.seed, known=choice.known)
        else:
            count = plan.per_round * (COMPILED_PER_TRIAL if choice.compiled.model else 1)
            chosen += screen_candidates(space, model, count, choice.seed, known=choice.known)
    return chosen


def _best_compiled(  # noqa: PLR0913, PLR0917 (a job's arguments)
    request: _ProposalRequest,
    workload: Workload,
    round_: int,
    known: Sequence[Candidate],
    named: Sequence[Candidate],
    code: Mapping[str, MachineCode],
) -> list[Candidate]:
    """What the model of compiled kernels chooses of what was named; the first where nothing was compiled."""
    count, chosen = request.config.kernels.per_round, list[Candidate]()
    for source, choice in _choices(request, workload, round_, known):
        own = [each for each in named if source.is_of(each)]
        compiled = CompiledSpace(
            choice.space,
            lambda every: [code.get(each.candidate_id) for each in every],
            choice.compiled.columns,
        )
        compiled.look_at(own)
        if choice.compiled.model is None or not compiled.built:
            chosen += own[:count]
        else:
            model = choice.compiled.model
            chosen += screen_candidates(compiled, model, count, choice.seed, known=choice.known)
    return chosen


def _count(candidate: Candidate, architecture: str) -> MachineCode | None:
    """What is in the machine code of a kernel of TVM; runs in a worker."""
    prepare_build_worker((MetaSchedule(),), "cuda", architecture)
    return machine_code(compile_cubin(candidate, architecture))


@lru_cache(maxsize=2)
def _load_once(path: Path) -> Model:
    """Read once in each worker."""
    return load_model(path)
