"""What measured savings of synchronised tiles make of simulated ones, for kernels that were not measured."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.planner._tile_schedule import Saving

# What is documented, all of the gaps and of the overlap and no costs, counts as much as so many measurements.
_PRIOR = 1.0
# Part of the time in a stream within which a saving is not known: errors below are alike.
_NOISE = 0.01
_TURNS = 100


@dataclass(frozen=True)
class MeasuredSaving:
    """What a policy saved of some kernels.

    Attributes:
        policy: How tiles waited.
        simulated: What is predicted of it, with gaps and without other overheads.
        saving: Part of the time in a stream that was saved.
    """

    policy: str
    simulated: Saving
    saving: float


@dataclass(frozen=True)
class SavingLaw:
    """What is saved: parts of the gaps and of the simulated overlap, less what a policy costs.

    Constants of one GPU or one kind of kernel do not hold for another: between short convolutions gaps are
    longer than between products, and blocks beside those of another kernel are slower. The law corrects the
    simulation by a few measurements of the kind; without any it is the simulation.

    Attributes:
        gaps: How much of the gaps is saved; above 1 where they are longer than was assumed.
        overlap: How much of the simulated overlap is saved.
        costs: What each policy costs, as a part of the time in a stream; of others nothing is known.

    Reference:
        Least absolute deviations by reweighted least squares: P. J. Green, J. R. Stat. Soc. B 46 (1984).
    """

    gaps: float = 1.0
    overlap: float = 1.0
    costs: Mapping[str, float] = field(default_factory=dict)

    def saving(self, simulated: Saving, policy: str) -> float:
        """Predict the part of the time in a stream that a policy saves of kernels that were not measured."""
        gaps, overlap = _parts(simulated)
        return self.gaps * gaps + self.overlap * overlap - self.costs.get(policy, 0.0)

    @classmethod
    def fit(cls, measured: Sequence[MeasuredSaving]) -> "SavingLaw":
        """Learn from measurements, such as those of other layers of a network; from none, the simulation.

        Args:
            measured: A row of each policy and pair of kernels.
        """
        policies = sorted({each.policy for each in measured})
        if not measured:
            return cls()
        terms = np.array(
            [
                [*_parts(each.simulated), *(-float(each.policy == name) for name in policies)]
                for each in measured
            ]
        )
        prior = np.array([1.0, 1.0, *(0.0 for _ in policies)])
        found = _least_deviations(terms, np.array([each.saving for each in measured]), prior)
        return cls(float(found[0]), float(found[1]), dict(zip(policies, found[2:].tolist(), strict=True)))


def _parts(simulated: Saving) -> tuple[float, float]:
    """Gaps and overlap as parts of the time in a stream."""
    gaps = simulated.gaps_s / simulated.stream_s
    return gaps, simulated.saving - gaps


def _least_deviations(terms: FloatArray, values: FloatArray, prior: FloatArray) -> FloatArray:
    """Coefficients with the least sum of absolute errors; one of which little is told stays at its prior."""
    held = np.diag((terms**2).mean(axis=0) * _PRIOR / _NOISE + np.finfo(float).tiny)
    found = prior
    for _ in range(_TURNS):
        weighted = terms / np.maximum(np.abs(terms @ found - values), _NOISE)[:, None]
        found = (
            prior
            + np.linalg.lstsq(terms.T @ weighted + held, weighted.T @ (values - terms @ prior), rcond=None)[0]
        )
    return found
