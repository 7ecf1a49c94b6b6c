"""``collect``: measure a campaign, and build a dataset."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import Any

from costmodel.arguments import check_number, check_path, check_whole
from costmodel.collector._engine import Engine
from costmodel.collector.campaign._campaign import Campaign
from costmodel.collector.campaign._config import CampaignConfig, find_campaign
from costmodel.collector.campaign._folder import CampaignFolder
from costmodel.collector.runners._devices import CpuRunner, CudaRunner
from costmodel.dataset._build import build_dataset
from costmodel.dataset.publish._card import CardHeader
from costmodel.dataset.table._dataset import Dataset
from costmodel.dataset.table._read import DatasetLike, load_dataset
from costmodel.dataset.table._records import LATENCIES
from costmodel.errors import CostModelError
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import Measurement
from costmodel.report._progress import Progress
from costmodel.search._propose import propose_candidates

_RUNNERS = {"cuda": CudaRunner, "cpu": CpuRunner}


@dataclass(frozen=True)
class Collected:
    """The result of ``collect``.

    Attributes:
        campaign: Name of the campaign, as in the files of its dataset.
        sources: Names of the kernels' sources.
        measured_on: One sentence on the runner and the device.
        finished: Whether the whole campaign is measured. If not, repeat the call to continue.
        measured: Number of measurements made by this call.
        stored: Number of measurements in the store after this call.
        outcomes: Number of measurements in the store, by outcome.
        store: The file that holds the measurements.
    """

    campaign: str
    sources: tuple[str, ...]
    measured_on: str
    finished: bool
    measured: int
    stored: int
    outcomes: dict[str, int]
    store: Path

    def dataset(self, out: Path | str | None = None, *, header: CardHeader | None = None) -> Dataset:
        """Build a dataset of all stored measurements.

        Args:
            out: Folder to write. Default: ``dataset``, next to the store.
            header: The author's part of the dataset card. Default: generated from the campaign.

        Raises:
            CostModelError: Nothing is stored, or the folder cannot be written.
        """
        folder = Path(out) if out else self.store.with_name("dataset")
        build_dataset([self.store], folder, header=header or self._header())
        return load_dataset(folder)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {**asdict(self), "store": str(self.store)}

    @property
    def sentence(self) -> str:
        """Summary of this call in one sentence."""
        outcomes = ", ".join(f"{count} {outcome}" for outcome, count in self.outcomes.items())
        state = "Finished" if self.finished else "Stopped at the time limit; run the same command to go on"
        return f"{state}: {self.measured} measured now, {self.stored} in {self.store} ({outcomes})."

    def __repr__(self) -> str:
        return f"<Collected {self.campaign}: {self.sentence}>"

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.measured_on)}<br>{escape(self.sentence)}</p>"

    def _header(self) -> CardHeader:
        """Make the card header of a campaign whose author wrote none."""
        return CardHeader(
            title=f"{self.campaign}: kernels on parts of a device",
            summary=f"{self.measured_on} Latencies of kernels of {', '.join(self.sources)}, each on every "
            "budget of a campaign.",
            method=f"Made by `costmodel collect run {self.campaign}`; how is in costmodel's documentation.",
            limits="- Not described by its author.",
            licence="not given",
            citation="Not given.",
        )


def collect(  # noqa: PLR0913 (settings, all but two with defaults)
    campaign: CampaignConfig | Path | str,
    out: Path | str,
    *,
    time_limit_s: float | None = None,
    devices: int = 1,
    candidates: DatasetLike | None = None,
    start_from: DatasetLike | None = None,
    engine: Engine | None = None,
    on_measurement: Callable[[Measurement], None] = lambda _: None,
) -> Collected:
    """Measure the missing part of a campaign, on every SM budget that it names.

    Each measurement is appended to ``measurements.jsonl`` in ``out`` as it is made. If a call is stopped or
    killed, at most the measurements in flight are lost; repeat the call to continue. Progress is shown as a
    bar or, in a log, as occasional lines.

    Example:
        >>> from costmodel.tuning import collect
        >>> result = collect("cpu-quick", "out/cpu", time_limit_s=60)  # doctest: +SKIP
        >>> data = result.dataset()  # doctest: +SKIP

    Args:
        campaign: A campaign, the path of its file, or the name of a shipped one: ``cpu-quick``,
            ``cpu-laptop``, ``h100-sm-budgets``, ``sm-budgets``, ``cuda-sm-budgets``, ``triton-sm-budgets``,
            ``sparse-sm-budgets``, ``wide-sm-budgets`` or ``sampled-sm-budgets``.
        out: Folder for the measurements.
        time_limit_s: Seconds after which no further measurement starts. Default: the campaign's own limit.
        devices: Number of devices that measure in parallel: the first ones of this machine, of one model.
        candidates: A dataset, or the folder of another campaign, whose kernels are measured; no others are
            drawn. Default: kernels are drawn.
        start_from: A dataset whose kernels of a workload are its first round, instead of random ones. Later
            rounds are proposed from the latencies of these kernels. Default: the first round is random.
        engine: Where kernels are built (see ``costmodel.service``). Default: in processes on this machine.
        on_measurement: Called with each measurement, those of earlier calls first. An exception that it
            raises ends the call.

    Raises:
        CostModelError: The campaign is invalid, the folder belongs to another campaign, ``candidates`` and
            ``start_from`` are both given, ``candidates`` has no kernels of a workload, the device cannot be
            opened or cannot grant an SM budget, or a file cannot be written.
        EngineLostError: The engine was lost.
    """
    check_whole("devices", devices, 1)
    if time_limit_s is not None:
        check_number("time_limit_s", time_limit_s)
    if candidates is not None and start_from is not None:
        raise CostModelError(
            f"Kernels must be taken from one place, but got candidates {candidates} and start_from "
            f"{start_from}. Give candidates to measure these alone, start_from to draw more after them."
        )
    config, folder = find_campaign(campaign), CampaignFolder(check_path("out", out))
    folder.claim(config)
    if candidates is not None:
        _take_candidates(folder, config, candidates)
    elif start_from is not None:
        _take_first_rounds(folder, config, start_from)
    draw = propose_candidates if candidates is None else None
    sources = config.open_sources()
    runner = _RUNNERS[config.runner](
        sources=sources, timing=config.timing, kernels=folder.kernels, devices=devices, engine=engine
    )
    with runner, Progress("measuring", folder.expected_measurements(config)) as progress:

        def show(measurement: Measurement) -> None:
            progress.advance(measurement.candidate.workload.name)
            on_measurement(measurement)

        run = Campaign(config, runner, folder, draw).run
        report = run(time_limit_s=time_limit_s, on_measurement=show)
    return Collected(
        campaign=folder.path.name if isinstance(campaign, CampaignConfig) else Path(campaign).stem,
        sources=config.sources,
        measured_on=runner.description,
        finished=report.finished,
        measured=report.measured,
        stored=report.stored,
        outcomes=report.outcomes,
        store=folder.store,
    )


def _take_candidates(folder: CampaignFolder, config: CampaignConfig, candidates: DatasetLike) -> None:
    """Take the kernels of this campaign from a dataset or another campaign.

    Raises:
        CostModelError: It has no kernels, or none of a workload.
    """
    if not isinstance(candidates, Dataset) and (other := CampaignFolder(Path(candidates))).has_proposals:
        folder.copy_proposals(other)
        return
    try:
        kernels = _kernels_of(candidates, config)
    except CostModelError as error:
        raise CostModelError(
            f"Candidates must be of a dataset or in the folder of a campaign that drew some. {error}"
        ) from None
    if missing := [name for name, known in kernels.items() if not known]:
        raise CostModelError(
            "A dataset whose kernels are measured must have some of every workload of the campaign, but it "
            f"has none of {', '.join(missing)}. Leave these out of the campaign, or start from the dataset "
            "(start_from): then kernels of these are drawn."
        )
    for workload in config.parsed_workloads:
        folder.add_proposals(workload, 0, kernels[workload.name])
        for round_ in range(1, config.kernels.rounds + 1):
            folder.add_proposals(workload, round_, [])


def _kernels_of(dataset: DatasetLike, config: CampaignConfig) -> dict[str, list[Candidate]]:
    """Return the kernels in a dataset of each workload of a campaign, from the campaign's sources."""
    sources = config.open_sources()
    kernels: dict[str, list[Candidate]] = {workload.name: [] for workload in config.parsed_workloads}
    for candidate in load_dataset(dataset, workloads=config.workloads, facts=LATENCIES).candidates:
        if candidate.workload.name in kernels and any(source.is_of(candidate) for source in sources):
            kernels[candidate.workload.name].append(candidate)
    return kernels


def _take_first_rounds(folder: CampaignFolder, config: CampaignConfig, dataset: DatasetLike) -> None:
    """Take the first round of each workload of which a dataset has kernels from the dataset."""
    kernels = _kernels_of(dataset, config)
    for workload in config.parsed_workloads:
        if known := kernels[workload.name]:
            folder.add_proposals(workload, 0, known)
