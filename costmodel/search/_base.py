"""What all samplers over a pool share."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, TrialState

from costmodel.errors import CostModelError
from costmodel.learners import FloatArray
from costmodel.records import Candidate
from costmodel.search._pool import Param, Pool

# A pruned trial was given up unmeasured: nothing is learned from it, and its candidate may come again.
_TRIED = (TrialState.COMPLETE, TrialState.FAIL, TrialState.RUNNING)


class PoolSampler(BaseSampler):
    """An Optuna sampler that proposes the candidates of a pool, each at most once.

    What was tried is read from the study, so that a study resumes from its storage and several workers can
    share one. The study minimises latency in seconds.

    Args:
        pool: The candidates.
        seed: Seed of all random choices.

    Attributes:
        knowledge: What the proposals rest on, for the provenance of an answer.
    """

    def __init__(self, pool: Pool, *, seed: int | None = 0) -> None:
        self.pool = pool
        self.knowledge: Mapping[str, str] = {"sampler": type(self).__name__}
        self._rng = np.random.default_rng(seed)

    @abstractmethod
    def choose(self, study: Study, trial: FrozenTrial, untried: NDArray[np.intp]) -> int:
        """Position in the pool of the next candidate, one of ``untried`` (never empty)."""

    def upcoming(self, study: Study, count: int) -> list[Candidate]:
        """Up to ``count`` candidates likely to be proposed soon; none where the sampler cannot tell."""
        return []

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters of the pool, known before any trial."""
        return dict(self.pool.distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Param]:
        """Parameters of the next candidate.

        Raises:
            CostModelError: Every candidate has been tried.
        """
        untried = self.untried(study)
        if untried.size == 0:
            raise CostModelError(
                f"There must be a candidate left to try, but all {len(self.pool)} have been. "
                "Ask for fewer trials or a larger pool."
            )
        return self.pool.params(self.choose(study, trial, untried))

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Refuse: a parameter that no candidate of the pool has cannot be chosen from it.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"parameters must be those of the pool, {sorted(self.pool.distributions)}, "
            f"but got {param_name!r} with {param_distribution}"
        )

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """End ``study.optimize`` when the pool is used up."""
        if self.untried(study).size == 0:
            with suppress(RuntimeError):  # raised outside study.optimize, where there is no loop to end
                study.stop()

    def reseed_rng(self) -> None:
        """Draw a new seed, for workers that were copied."""
        self._rng = np.random.default_rng()

    def untried(self, study: Study) -> NDArray[np.intp]:
        """Positions of the candidates that may be proposed."""
        return np.setdiff1d(np.arange(len(self.pool)), self._positions(study, _TRIED))

    def measured(self, study: Study) -> tuple[NDArray[np.intp], FloatArray]:
        """Positions of the measured candidates, and their latencies in seconds; inf for a failure."""
        finished = (TrialState.COMPLETE, TrialState.FAIL)
        trials = [t for t in study.get_trials(deepcopy=False, states=finished) if t.params]
        latencies = [t.value if t.value is not None else np.inf for t in trials]
        return self._positions(study, finished), np.array(latencies, dtype=np.float64)

    def _positions(self, study: Study, states: tuple[TrialState, ...]) -> NDArray[np.intp]:
        """Position of each trial in one of ``states`` that has parameters."""
        trials = study.get_trials(deepcopy=False, states=states)
        return np.array([self.pool.position(t.params) for t in trials if t.params], dtype=np.intp)
