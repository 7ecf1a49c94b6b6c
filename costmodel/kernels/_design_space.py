"""What a search needs of the design space of one workload, whatever source makes its kernels."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records import Candidate, Config, ConfigBatch, Workload

# A neighbour is one to so many single-parameter changes away: enough to leave a small local optimum.
MOST_CHANGES = 3


class DesignSpace(Protocol):
    """All kernels that a source may make of a workload, by sketch: a kind of kernel with its own parameters.

    Attributes:
        name: Name of the space, part of what a candidate is known by.
        workload: What the kernels compute.
    """

    name: str
    workload: Workload

    @property
    def sketches(self) -> Sequence[Any]:
        """The sketches, in an order that stays."""
        ...

    @property
    def size(self) -> int | None:
        """Number of configs where ``draw`` gives all of them if asked for as many, else None."""
        ...

    @property
    def starts(self) -> Sequence[Config]:
        """Configs to measure before any other, such as the one that an author takes for the best."""
        ...

    def parameters(self) -> Mapping[str, int | tuple[Any, ...]]:
        """Every parameter: the last index of a range from 0, or the choices."""
        ...

    def suggest(self, trial: Any) -> Config:
        """The config that an Optuna trial proposes."""
        ...

    def params(self, config: Config) -> Mapping[str, Any]:
        """The parameters of a config."""
        ...

    def config(self, params: Mapping[str, Any]) -> Config:
        """The config with these parameters; raises ``CostModelError`` where there is none."""
        ...

    def draw(self, sketch: int, size: int, rng: np.random.Generator) -> ConfigBatch:
        """Random configs of one sketch, as columns."""
        ...

    def sample(self, rng: np.random.Generator) -> Config:
        """A random config."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """A config with one random change."""
        ...

    def launches(self, batch: ConfigBatch) -> Mapping[str, FloatArray]:
        """What is known of the kernels of configs before any is built.

        Returns:
            Each field of ``KernelLaunch`` as ``(n, l)`` for l launches; NaN where it is not known.
        """
        ...

    def candidate(self, config: Config) -> Candidate:
        """The candidate of a config; raises ``InvalidConfigError`` where no kernel comes of it."""
        ...

    def program_hash(self, config: Config) -> int:
        """What equal programs have in common, within one process; raises as ``candidate`` does."""
        ...


def neighbour(space: DesignSpace, config: Config, rng: np.random.Generator) -> Config:
    """A config one to three random changes away, or by chance the config itself."""
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        config = space.mutate(config, rng)
    return config
