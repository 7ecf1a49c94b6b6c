"""Interface of the design space of one workload, independent of the kernel source."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.records._candidate import Candidate, Config, ConfigBatch
from costmodel.records._workload import Workload

# A neighbour is one to so many single-parameter changes away: enough to leave a small local optimum.
MOST_CHANGES = 3


class DesignSpace(Protocol):
    """All kernels that a source can make of a workload, by sketch: a kind of kernel with its own parameters.

    Attributes:
        name: Name of the space, part of the identity of a candidate.
        workload: What the kernels compute.
    """

    name: str
    workload: Workload

    @property
    def sketches(self) -> Sequence[Any]:
        """Sketches, in a fixed order."""
        ...

    @property
    def size(self) -> int | None:
        """Number of configs if ``draw`` can return all of them on request, else None."""
        ...

    @property
    def starts(self) -> Sequence[Config]:
        """Return the configs to measure before any other, such as the one that an author considers best."""
        ...

    def parameters(self) -> Mapping[str, int | tuple[Any, ...]]:
        """Return every parameter: the last index of a range from 0, or the choices."""
        ...

    def suggest(self, trial: Any) -> Config:
        """Return the config that an Optuna trial proposes."""
        ...

    def params(self, config: Config) -> Mapping[str, Any]:
        """Return the parameters of a config."""
        ...

    def config(self, params: Mapping[str, Any]) -> Config:
        """Return the config with these parameters; raise ``CostModelError`` if there is none."""
        ...

    def draw(self, sketch: int, size: int, rng: np.random.Generator) -> ConfigBatch:
        """Draw random configs of one sketch, as columns."""
        ...

    def sample(self, rng: np.random.Generator) -> Config:
        """Draw a random config."""
        ...

    def mutate(self, config: Config, rng: np.random.Generator) -> Config:
        """Return a config with one random change."""
        ...

    def launches(self, batch: ConfigBatch) -> Mapping[str, FloatArray]:
        """Return what is known about the kernels of configs before any of them is built.

        Returns:
            Each field of ``KernelLaunch`` as ``(n, l)`` for l launches; NaN if unknown.
        """
        ...

    def candidate(self, config: Config) -> Candidate:
        """Return the candidate of a config; raise ``InvalidConfigError`` if it makes no kernel."""
        ...

    def program_hash(self, config: Config) -> int:
        """Return a hash that equal programs share within one process; raise as ``candidate`` does."""
        ...


def neighbour(space: DesignSpace, config: Config, rng: np.random.Generator) -> Config:
    """Return a config one to three random changes away, or by chance the config itself."""
    for _ in range(int(rng.integers(1, MOST_CHANGES + 1))):
        config = space.mutate(config, rng)
    return config
