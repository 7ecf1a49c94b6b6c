"""A pool: the candidates that a search chooses from, screened as a whole."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from optuna import Trial
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution

from costmodel.errors import CostModelError
from costmodel.features import extract
from costmodel.learners import FloatArray
from costmodel.records import Candidate, Decision, Platform, content_id

Param = int | float | str | None


class Pool:
    """Candidates of one task, and how Optuna names them.

    Each decision of a config is one Optuna parameter: an integer range where every config holds an integer,
    else a category. The factors of a tile become a category such as ``2x1x16x4x1``, and a decision that a
    config does not have (configs of several sketches may share a pool) is the category None.

    Args:
        candidates: Distinct configs of one workload.
        platform: Where they would run.

    Raises:
        ValueError: There are no candidates, or two have the same decisions.
    """

    def __init__(self, candidates: Sequence[Candidate], platform: Platform) -> None:
        self.candidates = tuple(candidates)
        self.platform = platform
        self._names = sorted({name for c in self.candidates for name in c.config.decisions})
        self._positions = {self._key(self.params(i)): i for i in range(len(self.candidates))}
        if not self.candidates or len(self._positions) < len(self.candidates):
            raise ValueError(
                "a pool must hold one or more candidates with distinct decisions, "
                f"but got {len(self.candidates)} candidates with {len(self._positions)} distinct ones"
            )

    def __len__(self) -> int:
        return len(self.candidates)

    @property
    def pool_id(self) -> str:
        """Content address of the candidates, in order, and the platform."""
        return content_id([c.candidate_id for c in self.candidates], self.platform.platform_id)

    @cached_property
    def features(self) -> FloatArray:
        """``(n, d)`` features of the candidates on this platform; NaN where a feature does not apply."""
        return extract(self.candidates, [self.platform] * len(self)).values

    @cached_property
    def distributions(self) -> dict[str, BaseDistribution]:
        """Optuna distribution of each parameter, for ``study.ask``."""
        every = [self.params(i) for i in range(len(self))]
        return {name: _distribution([params[name] for params in every]) for name in self._names}

    def params(self, index: int) -> dict[str, Param]:
        """Optuna parameters of a candidate."""
        decisions = self.candidates[index].config.decisions
        return {name: _encoded(decisions.get(name)) for name in self._names}

    def position(self, params: dict[str, Any]) -> int:
        """Position of the candidate with these Optuna parameters.

        Raises:
            CostModelError: The pool has no such candidate.
        """
        position = self._positions.get(self._key(params))
        if position is None:
            raise CostModelError(
                f"The parameters of a trial must be those of a candidate in the pool, but got {params}. "
                "Use a sampler of this pool, and a new study for a new pool."
            )
        return position

    def suggest(self, trial: Trial) -> Candidate:
        """The candidate that a trial proposes, for an objective in ``study.optimize``.

        Raises:
            CostModelError: The study's sampler proposed what the pool does not hold.
        """
        params: dict[str, Param] = {}
        for name, distribution in self.distributions.items():
            if isinstance(distribution, IntDistribution):
                params[name] = trial.suggest_int(name, distribution.low, distribution.high)
            elif isinstance(distribution, CategoricalDistribution):
                params[name] = trial.suggest_categorical(name, distribution.choices)
        return self.candidates[self.position(params)]

    def _key(self, params: dict[str, Any]) -> tuple[Param, ...]:
        """Hashable form of Optuna parameters."""
        return tuple(params.get(name) for name in self._names)


def _encoded(value: Decision | None) -> Param:
    """A decision as something that Optuna can store."""
    return "x".join(map(str, value)) if isinstance(value, tuple) else value


def _distribution(values: list[Param]) -> BaseDistribution:
    """The distribution over the values that occur."""
    if all(isinstance(value, int) for value in values):
        integers = [value for value in values if isinstance(value, int)]
        return IntDistribution(min(integers), max(integers))
    distinct = sorted(set(values), key=lambda value: (value is None, str(value)))
    return CategoricalDistribution(distinct)
