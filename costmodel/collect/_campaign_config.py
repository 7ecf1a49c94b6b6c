"""What a campaign measures, as a TOML file says it."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal, Self

import msgspec

from costmodel.collect._timing import Timing
from costmodel.errors import CostModelError
from costmodel.records import Workload, is_reserved


class KernelPlan(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many kernels of each workload, and where they come from.

    Attributes:
        random: Kernels drawn at random in the first round.
        rounds: Rounds after it. Each draws near the fastest kernels so far.
        per_round: Kernels of each of these rounds.
        parents: How many of the fastest kernels at each parent budget are drawn near.
        parents_at: SM budgets at which kernels are compared, so that the dataset holds good ones for each.
    """

    random: Annotated[int, msgspec.Meta(ge=1)]
    rounds: Annotated[int, msgspec.Meta(ge=0)] = 0
    per_round: Annotated[int, msgspec.Meta(ge=0)] = 0
    parents: Annotated[int, msgspec.Meta(ge=1)] = 3
    parents_at: tuple[int, ...] = ()


class CampaignConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A campaign.

    Attributes:
        runner: What measures.
        workloads: Names of the workloads.
        sms: SM budgets; threads on a CPU.
        kernels: Which kernels.
        seed: Seed of every random draw.
        repeat_share: Share of the measurements that are made a second time later, to tell the noise (A/A).
        timing: How a kernel is timed.
    """

    runner: Literal["cuda", "cpu"]
    workloads: tuple[str, ...]
    sms: tuple[int, ...]
    kernels: KernelPlan
    seed: int = 0
    repeat_share: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.1
    timing: Timing = Timing()

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a campaign file.

        Raises:
            CostModelError: The file is missing, is not a campaign, or names a workload that is reserved.
        """
        try:
            config = msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), cls)
        except OSError as error:
            raise CostModelError(
                f"A campaign file must be at {path}, but {error.strerror or error}."
            ) from None
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise CostModelError(
                f"{path} must be a campaign file, but: {error}. See configs/ for examples."
            ) from None
        config.check()
        return config

    def check(self) -> None:
        """Check what the types cannot say.

        Raises:
            CostModelError: A list is empty or repeats itself, a workload is unknown or reserved, or kernels
                are to be drawn near the fastest at budgets that are not measured.
        """
        names = tuple(workload.name for workload in self.parsed_workloads)
        for name, values in (("workloads", names), ("sms", self.sms)):
            if not values or len(set(values)) < len(values):
                raise CostModelError(f"{name} must list at least one, each once, but got {list(values)}.")
        for workload in self.parsed_workloads:
            if is_reserved(workload):
                raise CostModelError(
                    f"{workload.name} is reserved for blind tests and must not be collected. Leave it out."
                )
        if not set(self.kernels.parents_at) <= set(self.sms) or (
            self.kernels.rounds and not self.kernels.parents_at
        ):
            raise CostModelError(
                "kernels.parents_at must name one or more of the SM budgets in sms when there are rounds, "
                f"but got {list(self.kernels.parents_at)}."
            )

    @property
    def parsed_workloads(self) -> tuple[Workload, ...]:
        """The workloads.

        Raises:
            CostModelError: A name is not that of a workload.
        """
        return tuple(Workload.parse(name) for name in self.workloads)

    @property
    def kernels_per_workload(self) -> int:
        """Kernels of each workload, where its space has that many."""
        return self.kernels.random + self.kernels.rounds * self.kernels.per_round
