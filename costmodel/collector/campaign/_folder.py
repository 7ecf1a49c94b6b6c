"""The files of a campaign, which are all that a killed run needs to go on."""

from pathlib import Path

import msgspec
from msgspec.structs import replace

from costmodel.collector.campaign._config import CampaignConfig
from costmodel.errors import CostModelError
from costmodel.files import write_whole
from costmodel.reading import exists, read_bytes, read_json
from costmodel.records._candidate import Candidate
from costmodel.records._workload import Workload

_KERNELS = "kernels of a campaign"


class CampaignFolder:
    """Folder of a campaign, with ``measurements.jsonl``, ``campaign.json``, ``proposals`` and ``kernels``.

    ``campaign.json`` is the config. ``proposals/<workload>.<round>.json`` contains the candidates drawn. It
    is written before the first of them is measured, so that a resumed campaign has the same candidates.
    ``kernels`` contains built kernels and can be deleted when the campaign is done.

    Attributes:
        path: Path of the folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def store(self) -> Path:
        """Path of the record store."""
        return self.path / "measurements.jsonl"

    @property
    def kernels(self) -> Path:
        """Folder of built kernels."""
        return self.path / "kernels"

    def claim(self, config: CampaignConfig) -> None:
        """Create the folder and write the config into it, or check that it contains the same config.

        A config is replaced if nothing has been drawn or measured with it yet, so that its author can fix it.
        It is also replaced if the new config asks for more rounds, has another time limit or leaves out other
        shapes; the campaign then continues with the new one.

        Raises:
            CostModelError: If the folder belongs to another campaign or cannot be created.
        """
        try:
            self._proposals.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise CostModelError(
                f"{self.path} must be a folder for measurements, but cannot be created: {error.strerror}."
            ) from None
        is_begun = exists(self.store) or self.has_proposals
        if is_begun and exists(self._config) and not _continues(config, self.config()):
            raise CostModelError(
                f"{self.path} must contain this campaign or none, but contains another one "
                f"({self._config.name} differs, by more than later rounds). Continue with the file that it "
                "was started with, or give another folder."
            )
        write_whole(self._config, msgspec.json.encode(config))

    def config(self) -> CampaignConfig:
        """Read the config of the campaign that the folder belongs to.

        Raises:
            CostModelError: If the folder belongs to no campaign, or to one of another version.
        """
        remedy = f"Give the folder that `costmodel collect run` wrote to, not {self.path}."
        return read_json(self._config, CampaignConfig, "the config of a campaign", remedy=remedy)

    def copy_proposals(self, other: "CampaignFolder") -> None:
        """Copy the candidates that another campaign drew, where this one has drawn none.

        Raises:
            CostModelError: If the other campaign has drawn none, or a file of it cannot be read.
        """
        paths = sorted(other._proposals.glob("*.json"))
        if not paths:
            raise CostModelError(
                f"{other.path} must contain the candidates of a campaign, but contains none. Give the "
                "folder that `costmodel collect run` wrote to."
            )
        for path in paths:
            if not exists(target := self._proposals / path.name):
                write_whole(target, read_bytes(path, _KERNELS))

    @property
    def has_proposals(self) -> bool:
        """Whether any kernels were drawn."""
        return any(self._proposals.glob("*.json"))

    def rounds(self, workload: Workload, config: CampaignConfig) -> list[list[Candidate] | None]:
        """The candidates of every round that a config asks for; None for those that were not drawn yet."""
        return [self.proposals(workload, round_) for round_ in range(config.kernels.rounds + 1)]

    def expected_measurements(self, config: CampaignConfig) -> int:
        """Measurements in all, A/A repeats included, once all rounds are drawn."""
        kernels = sum(config.kernels.expected(self.rounds(w, config)) for w in config.parsed_workloads)
        return round(kernels * config.platforms_per_kernel * (1 + config.repeat_share))

    def proposals(self, workload: Workload, round_: int) -> list[Candidate] | None:
        """Return the candidates of a round; None if they have not been drawn yet."""
        path = self._proposal_path(workload, round_)
        return read_json(path, list[Candidate], _KERNELS) if exists(path) else None

    def write_proposals(self, workload: Workload, round_: int, candidates: list[Candidate]) -> None:
        """Store the candidates of a round.

        Raises:
            CostModelError: If the file cannot be written.
        """
        write_whole(self._proposal_path(workload, round_), msgspec.json.encode(candidates))

    def add_proposals(self, workload: Workload, round_: int, candidates: list[Candidate]) -> None:
        """Store the candidates of a round, unless it was drawn already.

        Raises:
            CostModelError: If the file cannot be written.
        """
        if not exists(self._proposal_path(workload, round_)):
            self.write_proposals(workload, round_, candidates)

    @property
    def _config(self) -> Path:
        return self.path / "campaign.json"

    @property
    def _proposals(self) -> Path:
        return self.path / "proposals"

    def _proposal_path(self, workload: Workload, round_: int) -> Path:
        return self._proposals / f"{workload.name}.{round_}.json"


def _continues(config: CampaignConfig, begun: CampaignConfig) -> bool:
    """Whether a campaign is the one that was begun, with as many rounds or more."""
    same_rounds = replace(config.kernels, rounds=begun.kernels.rounds)
    same = replace(config, kernels=same_rounds, time_limit_s=begun.time_limit_s, leave_out=begun.leave_out)
    return same == begun and config.kernels.rounds >= begun.kernels.rounds
