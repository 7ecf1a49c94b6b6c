"""Config of a campaign, as read from a TOML file."""

from collections.abc import Sequence, Sized
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from costmodel.arguments import MOST_SEED, check_path
from costmodel.collector.device._timing import Timing
from costmodel.errors import CostModelError
from costmodel.files import find_config
from costmodel.kernels._base import KernelSource
from costmodel.kernels._sources import open_sources, source_for
from costmodel.reading import Whole32, read_toml
from costmodel.records._identity import content_id
from costmodel.records._workload import Shape, Workload

_REMEDY = (
    "Name a file such as those of configs/, or a shipped campaign: cpu-quick, cpu-laptop, h100-sm-budgets, "
    "sm-budgets, cuda-sm-budgets, triton-sm-budgets, sparse-sm-budgets, wide-sm-budgets or "
    "sampled-sm-budgets."
)
Count = Annotated[int, msgspec.Meta(ge=1, lt=2**31)]
Share = Annotated[float, msgspec.Meta(ge=0.0, le=1.0)]


class KernelPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many kernels of each workload, and for which budgets they should be good.

    Attributes:
        random: Kernels drawn at random in the first round.
        rounds: Rounds after it. In each, a model of what was measured chooses.
        per_round: Kernels of each of these rounds.
        good_at: SM budgets at which fast kernels are sought, so that the dataset holds good ones for each.
    """

    random: Count
    rounds: Whole32 = 0
    per_round: Whole32 = 0
    good_at: tuple[Count, ...] = ()

    def expected(self, rounds: Sequence[Sized | None]) -> int:
        """Number of kernels of a workload: those of rounds that were drawn, and those asked for in others."""
        asked = [self.random, *[self.per_round] * self.rounds]
        return sum(n if drawn is None else len(drawn) for n, drawn in zip(asked, rounds, strict=True))


class MpsPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is also measured under MPS.

    Attributes:
        sms: SM budgets; the percentages are the smallest that cover them.
        share: Share of the kernels, chosen by their ids.
    """

    sms: tuple[Count, ...]
    share: Share = 1.0


class CampaignConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Config of a campaign.

    Attributes:
        runner: Where measurements are made.
        workloads: Names of the workloads.
        sms: SM budgets (threads on a CPU).
        kernels: Which kernels are measured.
        sources: Kernel sources. Each workload gets the kernels of every source that makes it.
        families: Places of families of one's own, as ``costmodel tune`` takes them.
        seed: Seed of every random draw.
        repeat_share: Fraction of the measurements that are repeated later, to determine the noise (A/A).
        side_by_side: Number of kernels of a workload that are timed together, interleaved.
        partitions: Number of equal parts of the device that measure at once. With more than one, budgets that
            do not fit this number of times are measured alone.
        finalists: With several partitions, number of fastest kernels of each workload and budget that are
            also measured alone.
        mps: What is also measured under MPS.
        timing: How a kernel is timed.
        leave_out: Shapes that must not be measured, such as those reserved for blind tests.
            ``matmul-m1-n4096-k4096`` stands for every dtype, layout and epilogue; ``conv2d-c192-k1`` also for
            every value of the sizes that it does not name.
        time_limit_s: Seconds after which a run stops, unless the command overrides it.
    """

    runner: Literal["cuda", "cpu"]
    workloads: tuple[str, ...]
    sms: tuple[Count, ...]
    kernels: KernelPlan
    sources: tuple[str, ...] = ("metaschedule",)
    families: tuple[str, ...] = ()
    seed: Annotated[int, msgspec.Meta(ge=0, le=MOST_SEED)] = 0
    repeat_share: Share = 0.1
    side_by_side: Count = 8
    partitions: Count = 1
    finalists: Whole32 = 5
    mps: MpsPlan | None = None
    timing: Timing = Timing()
    leave_out: tuple[str, ...] = ()
    time_limit_s: Annotated[float, msgspec.Meta(gt=0.0)] | None = None

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a campaign file, or the shipped campaign of this name in ``configs/``, such as ``cpu-quick``.

        Raises:
            CostModelError: If the file is missing, is not a campaign, or names a workload that it leaves out.
        """
        config: Self = read_toml(find_config(path), cls, "a campaign file", remedy=_REMEDY)
        config.check()
        return config

    def check(self) -> None:
        """Check what the types cannot express.

        Raises:
            CostModelError: If a list is empty or has duplicates, a workload or source is unknown, a workload
                is left out or made by no source, a CPU campaign has partitions or MPS, or good kernels are
                sought at budgets that are not measured.
        """
        names = tuple(workload.name for workload in self.parsed_workloads)
        mps = self.mps.sms if self.mps else (1,)
        lists = {"workloads": names, "sms": self.sms, "mps.sms": mps, "sources": self.sources}
        for name, values in lists.items():
            if not values or len(set(values)) < len(values):
                raise CostModelError(f"{name} must list at least one, each once, but got {list(values)}.")
        sources = self.open_sources()
        for workload in self.parsed_workloads:
            source_for(workload, self.runner, sources)
            for shape in self.left_out:
                if shape.includes(workload.shape):
                    raise CostModelError(
                        f"{workload.name} must not be measured, as leave_out names {shape.name}: remove it "
                        "from one of the two lists."
                    )
        if self.runner == "cpu" and (self.mps or self.partitions > 1):
            raise CostModelError("mps and partitions need the cuda runner. Leave them out of a CPU campaign.")
        if not set(self.kernels.good_at) <= set(self.sms) or (
            self.kernels.rounds and not self.kernels.good_at
        ):
            raise CostModelError(
                "kernels.good_at must name one or more of the SM budgets in sms when there are rounds, "
                f"but got {list(self.kernels.good_at)}."
            )

    def open_sources(self) -> tuple[KernelSource, ...]:
        """Return the kernel sources, which make the families too.

        Raises:
            CostModelError: If there is no such source or family.
        """
        return open_sources(self.sources, self.families)

    @property
    def parsed_workloads(self) -> tuple[Workload, ...]:
        """Return the workloads.

        Raises:
            CostModelError: If a name is not that of a workload.
        """
        return tuple(Workload.parse(name) for name in self.workloads)

    @property
    def left_out(self) -> tuple[Shape, ...]:
        """Return the shapes that must not be measured.

        Raises:
            CostModelError: If a text is not a shape.
        """
        return tuple(map(Shape.parse, self.leave_out))

    def draw_seed(self, workload: Workload, round_: int) -> int:
        """Return the seed for drawing a workload's kernels in a round."""
        return int(content_id(self.seed, workload.name, round_)[:8], 16)

    @property
    def kernels_per_workload(self) -> int:
        """Number of kernels of each workload, if its space has that many."""
        return self.kernels.expected([None] * (self.kernels.rounds + 1))

    @property
    def platforms_per_kernel(self) -> float:
        """Average number of platforms that a kernel is measured on."""
        return len(self.sms) + (self.mps.share * len(self.mps.sms) if self.mps else 0.0)

    @property
    def measurements(self) -> int:
        """Total number of measurements, A/A repeats included, if every space has enough kernels."""
        first_visits = len(self.workloads) * self.kernels_per_workload * self.platforms_per_kernel
        return round(first_visits * (1 + self.repeat_share))


def find_campaign(campaign: CampaignConfig | Path | str) -> CampaignConfig:
    """Return a valid campaign.

    Args:
        campaign: A campaign, the path of its file, or the name of a shipped one, such as ``cpu-quick``.

    Raises:
        CostModelError: If there is no such campaign, or it is invalid; see ``CampaignConfig``.
    """
    if isinstance(campaign, CampaignConfig):
        campaign.check()
        return campaign
    return CampaignConfig.load(check_path("campaign", campaign))
