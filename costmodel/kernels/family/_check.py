"""Whether a family is as it should be: read, counted, compiled and, where something runs it, compared."""

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np

from costmodel.errors import InvalidConfigError
from costmodel.kernels.family._base import Family
from costmodel.kernels.family._source import FamilySource
from costmodel.kernels.family._space import FamilySpace
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import KernelResources, Outcome
from costmodel.records._workload import Workload


@dataclass(frozen=True)
class ConfigCheck:
    """What became of one config.

    Attributes:
        config: The config.
        outcome: How it ended.
        seconds: What compiling took.
        resources: What the compiler gave its kernel; None where there is none.
        error: Why it failed.
    """

    config: Config
    outcome: Outcome
    seconds: float
    resources: KernelResources | None = None
    error: str = ""


@dataclass(frozen=True)
class FamilyCheck:
    """What a check of a family found.

    Attributes:
        name: Name of the family.
        space: Name of its space.
        workload: What was checked.
        size: Number of configs of the space; None where they are too many to count.
        architecture: What was compiled for.
        configs: The configs that were compiled, the default first.
        remarks: What a user should know, in sentences.
    """

    name: str
    space: str
    workload: Workload
    size: int | None
    architecture: str
    configs: tuple[ConfigCheck, ...]
    remarks: tuple[str, ...]

    @property
    def failures(self) -> dict[str, int]:
        """How many configs failed for each reason, the most frequent first."""
        errors = Counter(
            f"{check.outcome}: {check.error}" for check in self.configs if check.outcome != Outcome.OK
        )
        return dict(errors.most_common())

    @property
    def compiled(self) -> int:
        """Number of configs that compiled."""
        return sum(check.outcome == Outcome.OK for check in self.configs)

    @property
    def median_seconds(self) -> float:
        """Time to compile a config."""
        return median(check.seconds for check in self.configs)


def check_family(  # noqa: PLR0913 (one argument a knob)
    source: FamilySource,
    family: Family,
    workload: Workload | None = None,
    *,
    architecture: str = "sm_90",
    configs: int = 16,
    seed: int = 0,
    on_progress: Callable[[], None] | None = None,
) -> FamilyCheck:
    """Compile the default config of a family and random ones; needs no GPU.

    Args:
        source: Its source.
        family: The family.
        workload: One of its workloads; that of its own dims if None.
        architecture: What to compile for.
        configs: How many configs.
        seed: Of what is drawn.
        on_progress: Called after each config.

    Raises:
        CostModelError: No config meets the conditions, or the compiler is not installed.
    """
    source.check_installed("cuda")
    workload = workload or family.workload()
    space = FamilySpace(family, workload)
    drawn = space.draw(0, configs, np.random.default_rng(seed)).configs()
    chosen = list({config.config_id: config for config in (space.default, *drawn)}.values())[:configs]
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for config in chosen:
            try:
                found.append(_compiled(source, family, space.candidate(config), architecture, Path(folder)))
            except InvalidConfigError as error:
                found.append(ConfigCheck(config, Outcome.INVALID_CONFIG, 0.0, error=str(error)))
            if on_progress:
                on_progress()
    return FamilyCheck(
        family.name, space.name, workload, space.count, architecture, tuple(found), tuple(family.remarks)
    )


def _compiled(
    source: FamilySource, family: Family, candidate: Candidate, architecture: str, folder: Path
) -> ConfigCheck:
    started = perf_counter()
    built = source.compile(family, candidate, architecture, folder)
    seconds = perf_counter() - started
    resources = built.resources[0] if built.resources else None
    return ConfigCheck(candidate.config, built.outcome, seconds, resources, built.error)
