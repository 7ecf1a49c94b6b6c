"""``propose``: choose the kernels of a campaign before a device is available."""

from collections.abc import Sequence
from concurrent.futures import Future, as_completed
from contextlib import closing
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import msgspec

from costmodel.collector._local_engine import LocalEngine
from costmodel.collector.campaign._config import CampaignConfig, find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.kernels._base import KernelSource
from costmodel.kernels._sample import sample_from_starts
from costmodel.records._candidate import Candidate
from costmodel.records._platform import Platform, part_of
from costmodel.records._workload import Workload
from costmodel.report._progress import Progress
from costmodel.search._propose import screen_candidates
from costmodel.search.spaces._kernel import KernelSpace
from costmodel.transfer.prediction._devices import device_named
from costmodel.transfer.prediction._model import Model, load_model
from costmodel.tuning._knowledge import from_model


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


class _Request(NamedTuple):
    """What a worker needs to choose the kernels of a workload."""

    config: CampaignConfig
    folder: Path
    model: Path
    platforms: tuple[Platform, ...]


def propose(
    campaign: CampaignConfig | Path | str,
    out: Path | str,
    model: Path | str,
    *,
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
        device: Name of the device that will measure. Default: the only device that the model learned from.
        workers: Number of processes. Default: one per hardware thread.

    Raises:
        CostModelError: The campaign is invalid, the folder belongs to another campaign, the model cannot be
            read, or the device is unknown or does not suit the campaign.
    """
    config, folder = find_campaign(campaign), CampaignFolder(Path(out))
    on = device_named(device, load_model(model).metadata.devices)
    if on.kind != config.runner:
        raise CostModelError(
            f"The device must be one that a {config.runner} campaign measures on, but got {on.name}, which "
            f"runs {on.kind}. Name another one, or give a model that learned from one."
        )
    platforms = tuple(part_of(on, sms) for sms in config.kernels.good_at or config.sms)
    folder.claim(config)
    request = _Request(config, folder.path, Path(model), platforms)
    kernels: dict[str, int] = {}
    failed: dict[str, str] = {}
    with closing(LocalEngine(workers)) as engine, Progress("choosing", len(config.workloads)) as progress:
        jobs = {engine.submit(_propose_for, request, w): w.name for w in config.parsed_workloads}
        for job in as_completed(jobs):
            kernels[jobs[job]], reason = _outcome(job)
            failed |= {jobs[job]: reason} if reason else {}
            progress.advance(jobs[job])
    return Proposed(str(folder.path), {name: kernels[name] for name in sorted(kernels)}, failed)


def _outcome(job: "Future[int]") -> tuple[int, str]:
    """How many kernels were chosen, and why none could be."""
    error = job.exception()
    return (0, last_line(error)) if error else (job.result(), "")


def _propose_for(request: _Request, workload: Workload) -> int:
    """Choose the kernels of a workload, round by round; runs in a worker."""
    folder, known = CampaignFolder(request.folder), list[Candidate]()
    for round_ in range(request.config.kernels.rounds + 1):
        chosen = folder.proposals(workload, round_)
        if chosen is None:
            chosen = _round(request, workload, round_, known)
            folder.write_proposals(workload, round_, chosen)
        known += chosen
    return len(known)


def _round(request: _Request, workload: Workload, round_: int, known: Sequence[Candidate]) -> list[Candidate]:
    """The candidates of a round, of every source that makes the workload."""
    config = request.config
    sources = [each for each in config.open_sources() if each.makes(workload, config.runner)]
    return [each for source in sources for each in _of_source(request, source, workload, round_, known)]


def _of_source(
    request: _Request, source: KernelSource, workload: Workload, round_: int, known: Sequence[Candidate]
) -> list[Candidate]:
    config = request.config
    space = source.space(workload, config.runner)
    seed = config.draw_seed(workload, round_)
    own = [candidate for candidate in known if source.is_of(candidate)]
    searched = KernelSpace(space, *request.platforms)
    knowledge = from_model(_model(request.model), searched.family, None)
    if round_ == 0 or knowledge.model is None:
        count = config.kernels.per_round if round_ else config.kernels.random
        return sample_from_starts(space, count, seed, known=own)
    searched = searched.in_columns(knowledge.columns)
    return screen_candidates(searched, knowledge.model, config.kernels.per_round, seed, known=own)


@lru_cache(maxsize=1)
def _model(path: Path) -> Model:
    """Read once in each worker."""
    return load_model(path)
