"""Configs bred from others for what a model expects of them, before anything is lowered.

Lowering a config takes 5 to 110 ms, changing and judging one 0.5 ms: a model that knows decisions alone looks
at thirty configs for each that is lowered, and a better one judges those.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from costmodel.learners import FloatArray
from costmodel.records import Candidate, Config, Measurement
from costmodel.search._decisions import SKETCH
from costmodel.search._improvement import ImprovementModel

# How often configs are bred before some are lowered, and how many each time (experiments/proposals).
_BROODS, _BROOD = 3, 480
# The most promising at each budget, that the next brood comes from too.
_PARENTS = 6
# The part of a brood that has two parents.
_CROSSING_SHARE = 0.3
# As many as the draws near parents of ``costmodel.spaces.sample_candidates`` make.
_MOST_CHANGES = 3


class Space(Protocol):
    """What breeding needs of a design space."""

    def sample(self, rng: np.random.Generator) -> Config:
        """A random config."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A neighbour of ``config``."""
        ...

    def candidate(self, config: Config) -> Candidate:
        """The candidate of ``config``; raises ``InvalidConfigError`` where no kernel comes of it."""
        ...


@dataclass(frozen=True)
class Breeder:
    """Breeds configs of one workload.

    Attributes:
        space: The design space.
        like: A candidate of the workload.
        model: What judges configs; it learned from measurements as ``before_lowering`` gives them.
        rng: Decides on parents and changes.
    """

    space: Space
    like: Candidate
    model: ImprovementModel
    rng: np.random.Generator

    def configs(self, parents: Sequence[Config], count: int) -> list[Config]:
        """At most ``count`` configs, those with the largest expected improvement at any budget."""
        bred: dict[str, Config] = {}
        improvement = np.empty((0, len(self.model.platforms)))
        elders = list(parents)
        for _ in range(_BROODS):
            brood = {child.config_id: child for child in (self._child(elders) for _ in range(_BROOD))}
            new = [child for name, child in brood.items() if name not in bred]
            if new:
                bred |= {child.config_id: child for child in new}
                candidates = [replace(self.like, config=child, launches=()) for child in new]
                improvement = np.vstack([improvement, self.model.improvement(self.model.rows(candidates))])
                every = list(bred.values())
                elders = [*parents, *(every[i] for i in leaders(improvement, _PARENTS))]
        return [every[i] for i in leaders(improvement, max(1, count // improvement.shape[1]))]

    def _child(self, parents: Sequence[Config]) -> Config:
        """A parent, perhaps crossed with another, with a few random changes."""
        config, other = (parents[int(i)] for i in self.rng.integers(len(parents), size=2))
        if self.rng.random() < _CROSSING_SHARE:
            config = _crossed(config, other, self.rng)
        for _ in range(int(self.rng.integers(1, _MOST_CHANGES + 1))):
            config = self.space.mutate(config, self.rng)
        return config


def leaders(values: FloatArray, count: int) -> NDArray[np.intp]:
    """Rows that hold one of the ``count`` largest values of any column."""
    return np.unique(np.argsort(-values, axis=0, kind="stable")[:count])


def before_lowering(measured: Sequence[Measurement]) -> list[Measurement]:
    """The measurements, as if nothing were known of any launch."""
    bare = {m.candidate.candidate_id: replace(m.candidate, launches=()) for m in measured}
    return [replace(m, candidate=bare[m.candidate.candidate_id]) for m in measured]


def _crossed(config: Config, other: Config, rng: np.random.Generator) -> Config:
    """Each decision that both have from one or the other, where both are of the same sketch."""
    mine, theirs = config.decisions, other.decisions
    if mine.get(SKETCH) != theirs.get(SKETCH):
        return config
    return Config({name: (mine if rng.random() < 0.5 else theirs)[name] for name in mine})
