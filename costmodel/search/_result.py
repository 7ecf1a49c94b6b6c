"""What a search found, and where the answer came from."""

import math
import platform as python_platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import version

from costmodel.errors import CostModelError
from costmodel.records import Candidate, Outcome, Platform
from costmodel.version import __version__


def _versions() -> dict[str, str]:
    """Versions of what computes the answer."""
    packages = {name: version(name) for name in ("numpy", "optuna")}
    return {"costmodel": __version__, "python": python_platform.python_version(), **packages}


@dataclass(frozen=True)
class TunedTrial:
    """One measured proposal.

    Attributes:
        number: Number of its Optuna trial.
        candidate: What was measured.
        outcome: How it ended.
        latency_s: Median latency in seconds; inf unless the outcome is ok.
        error: First line of the failure's message; empty when ok.
        predicted_latency_s: Latency in seconds predicted before it was measured; None where the sampler
            cannot tell.
        predicted_rank: Rank of its score among all that it was chosen from, 1 for the best; None where
            the sampler does not score.
    """

    number: int
    candidate: Candidate
    outcome: Outcome
    latency_s: float
    error: str = ""
    predicted_latency_s: float | None = None
    predicted_rank: int | None = None


@dataclass(frozen=True)
class Provenance:
    """Where an answer came from.

    Attributes:
        runner: What measured, in a sentence.
        knowledge: What the model is and what it learned from, such as its name and the dataset's hash.
        space_id: Content address of the space and the platform.
        n_screened: Configs that were screened; all of a small space, 0 where a sampler screens nothing.
        n_measurements: Candidates measured.
        versions: Of the software here; that of the measuring platform is in the platform.
    """

    runner: str
    knowledge: Mapping[str, str]
    space_id: str
    n_screened: int
    n_measurements: int
    versions: Mapping[str, str] = field(default_factory=_versions)


@dataclass(frozen=True)
class TuneResult:
    """Result of a search.

    Attributes:
        platform: Where the candidates were measured.
        trials: In the order in which they were proposed, failures included.
        provenance: Where the answer came from.
    """

    platform: Platform
    trials: tuple[TunedTrial, ...]
    provenance: Provenance

    @cached_property
    def ranked(self) -> tuple[TunedTrial, ...]:
        """Trials from the fastest to the slowest, failures last."""
        return tuple(sorted(self.trials, key=lambda trial: trial.latency_s))

    @property
    def best(self) -> TunedTrial:
        """The fastest trial.

        Raises:
            CostModelError: Every trial failed.
        """
        if not self.ranked or math.isinf(self.ranked[0].latency_s):
            errors = sorted({f"{trial.outcome}: {trial.error}" for trial in self.trials})
            raise CostModelError(
                f"One trial or more must succeed to name a best config, but all {len(self.trials)} failed "
                f"({'; '.join(errors[:3])}). Ask for more trials, or look into the failures."
            )
        return self.ranked[0]
