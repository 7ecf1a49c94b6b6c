"""Base class of samplers over a space."""

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from optuna import Study
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from costmodel.arguments import check_seed
from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError, SpaceExhaustedError
from costmodel.records._candidate import Config
from costmodel.search._objective import Objective, ObjectiveName, SearchGoal
from costmodel.search.samplers._history import History
from costmodel.search.samplers._turns import CHOICE, FIXED, claim, give_up, wait_for_turn, write_attr
from costmodel.search.spaces._base import Param, SearchSpace


class SpaceSampler(BaseSampler):
    """Base class of Optuna samplers that propose each config of a space at most once.

    What was tried is read from the study alone, so that a study resumes from its storage, and several threads
    or processes share one without proposing a config twice (see ``_turns``). A trial's config is chosen when
    it is asked for: ``space.suggest(trial)`` gives it.

    At one SM budget the study minimises latency in seconds. At several, what is best depends on what else was
    measured, but a value must not drift: the study minimises ``value``, which is relative to a reference that
    is fixed at the start, and each trial must carry its latencies in the user attribute ``latency_s``, as
    ``tune`` writes them.

    A pruned trial counts as tried, and nothing is learned from it.

    Args:
        space: The space.
        objective: How SM budgets combine; the worst regret if not given.
        goal: One kernel for all budgets, or kernels of a portfolio.
        seed: Seed of all random choices; None for another one each time.

    Attributes:
        knowledge: What the proposals rest on, for the provenance of an answer.

    Raises:
        ValueError: The objective is for another number of budgets.
    """

    def __init__(
        self,
        space: SearchSpace,
        *,
        objective: Objective | None = None,
        goal: SearchGoal = SearchGoal.ONE_KERNEL,
        seed: int | None = 0,
    ) -> None:
        self.space = space
        self.objective = objective or Objective.make(ObjectiveName.WORST_REGRET, len(space.platforms))
        self.goal = goal
        if len(self.objective.weights) != len(space.platforms):
            raise ValueError(
                "objective must be for as many SM budgets as the space has, "
                f"but got {len(self.objective.weights)} and {len(space.platforms)}"
            )
        self.seed = int(np.random.default_rng().integers(2**31)) if seed is None else check_seed(seed)
        self.knowledge: Mapping[str, str] = {"sampler": type(self).__name__}
        self._lock = threading.RLock()
        self._given_up: set[int] = set()

    @abstractmethod
    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """Choose the next config, which must not be among those tried in the history.

        Raises:
            SpaceExhaustedError: No config is left.
        """

    @property
    def reference_s(self) -> FloatArray:
        """``(b,)`` seconds that values are relative to: 1 s over the SMs, where nothing better is known."""
        return 1.0 / np.array([platform.sms_granted for platform in self.space.platforms], dtype=np.float64)

    def value(self, latency_s: FloatArray, reference_s: FloatArray) -> float:
        """What a study minimises for a kernel; inf if it failed.

        At one budget the latency in seconds. Over several the objective, as a natural log of latency over the
        reference; a kernel of a portfolio need not be good everywhere: the smallest of the budgets.

        Args:
            latency_s: ``(b,)`` seconds; inf for a failure.
            reference_s: ``(b,)`` seconds, such as ``self.reference_s`` when the study began.
        """
        if latency_s.size == 1:
            return float(latency_s[0])
        log_ratio = np.log(latency_s / reference_s)
        if self.goal is SearchGoal.PORTFOLIO:
            return float(log_ratio.min())
        return float(self.objective.combine(log_ratio))

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """Choose the trial's config, in turn with all other workers, and write it down.

        A trial that no config is found for is given up.

        Raises:
            SpaceExhaustedError: Every config has been tried.
            CostModelError: The study does not minimise one value, or a trial was enqueued with what is no
                config of the space.
        """
        _check_minimises(study)
        if CHOICE in study._storage.get_trial_system_attrs(trial._trial_id):
            return  # the same trial as an object of another process
        claim(study, trial)
        chosen: dict[str, Param] = {}
        try:
            wait_for_turn(study, trial, self._given_up)
            with self._lock:
                fixed = trial.system_attrs.get(FIXED)
                history = History.of(study, self.space, below=trial.number)
                config = self._enqueued(fixed) if fixed else self.choose(study, trial, history)
                chosen = self.space.params(config)
        finally:
            write_attr(study, trial, CHOICE, chosen)
            if not chosen:
                give_up(study, trial)

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """All parameters of the space, known before any trial."""
        return dict(self.space.distributions)

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Parameters of the config that was chosen."""
        choice: dict[str, Any] = study._storage.get_trial_system_attrs(trial._trial_id)[CHOICE]
        return choice

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """Refuse: a parameter that no config of the space has cannot be chosen from it.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            f"parameters must be those of a config of the space, {sorted(self.space.distributions)}, "
            f"but got {param_name!r} with {param_distribution}: declare it in the space too"
        )

    def after_trial(
        self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None
    ) -> None:
        """End ``study.optimize`` when the space is used up."""
        if self.is_exhausted(study):
            with suppress(RuntimeError):  # raised outside study.optimize, where there is no loop to end
                study.stop()

    def reseed_rng(self) -> None:
        """Nothing to do: what is random is drawn by the trial's number, which no two workers share."""

    def is_exhausted(self, study: Study) -> bool:
        """Whether every config of a small space has been tried."""
        return self.space.size is not None and len(History.of(study, self.space).tried) >= self.space.size

    def rng(self, *parts: int) -> np.random.Generator:
        """The generator of this seed for a trial, a screening, or what else has a number."""
        return np.random.default_rng([self.seed, *parts])

    def nothing_left(self) -> SpaceExhaustedError:
        """The error of ``choose`` where every config was tried."""
        count = "" if self.space.size is None else f" {self.space.size}"
        return SpaceExhaustedError(
            f"There must be a candidate left to try, but all{count} have been. "
            "Ask for fewer trials or a larger space."
        )

    def _enqueued(self, fixed: Mapping[str, Any]) -> Config:
        """The config that a trial was enqueued with.

        Raises:
            CostModelError: It is none of the space.
        """
        try:
            return self.space.config(fixed)
        except CostModelError as error:
            raise CostModelError(
                f"A trial must be enqueued with all parameters of one config of the space, but got "
                f"{dict(fixed)}: {error}"
            ) from error


def _check_minimises(study: Study) -> None:
    """Refuse a study in which lower is not better.

    Raises:
        CostModelError: It has several objectives, or one to maximise.
    """
    if study.directions != [StudyDirection.MINIMIZE]:
        directions = ", ".join(direction.name.lower() for direction in study.directions)
        raise CostModelError(
            f"A study must minimise one value, such as a latency in seconds, but this is to {directions}. "
            "Create it with optuna.create_study(direction='minimize')."
        )
