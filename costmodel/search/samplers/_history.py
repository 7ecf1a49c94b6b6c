"""What a study knows: the configs that were measured, and those that someone is measuring."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray
from costmodel.errors import CostModelError
from costmodel.records import Config
from costmodel.search.samplers._turns import CHOICE
from costmodel.spaces import SearchSpace

FIXED = "fixed_params"  # where Optuna keeps the parameters of an enqueued trial
FINISHED = (TrialState.COMPLETE, TrialState.FAIL)


@dataclass(frozen=True)
class History:
    """Configs of a study by what is known of them; pruned trials were given up and count for nothing.

    Attributes:
        measured: Measured configs, in the order in which they were told.
        latencies: ``(m,)`` seconds of each; inf for a failure.
        pending: Configs that some worker is measuring or that wait in the queue.
    """

    measured: tuple[Config, ...]
    latencies: FloatArray
    pending: tuple[Config, ...] = ()

    @classmethod
    def of(cls, study: Study, space: SearchSpace, *, below: int | None = None) -> Self:
        """What the study says.

        Args:
            study: The study.
            space: Its space.
            below: Number of a trial that is choosing: it and those running behind it are left out.

        Raises:
            CostModelError: A finished trial has parameters that are not of this space.
        """
        trials = study.get_trials(deepcopy=False)
        finished = [(params, t) for t in trials if t.state in FINISHED and (params := chosen_params(t))]
        finished.sort(key=lambda pair: (pair[1].datetime_complete or datetime.max, pair[1].number))
        pending = [
            params
            for t in trials
            if t.state is TrialState.WAITING
            or (t.state is TrialState.RUNNING and (below is None or t.number < below))
            if (params := chosen_params(t))
        ]
        latencies = [t.value if t.state is TrialState.COMPLETE else np.inf for _, t in finished]
        return cls(
            tuple(space.config(params) for params, _ in finished),
            np.array(latencies, dtype=np.float64),
            tuple(config for params in pending if (config := _config_of(space, params))),
        )

    @cached_property
    def tried(self) -> frozenset[str]:
        """Ids of all of these configs."""
        return frozenset(config.config_id for config in (*self.measured, *self.pending))

    @property
    def best_s(self) -> float:
        """Latency of the fastest in seconds; inf where nothing ran."""
        return float(self.latencies.min(initial=np.inf))

    def agrees(self, other: Self) -> bool:
        """Whether the same was measured."""
        return self.measured == other.measured and np.array_equal(self.latencies, other.latencies)

    def first(self, count: int) -> Self:
        """The history when so many had been measured."""
        return type(self)(self.measured[:count], self.latencies[:count])


def chosen_params(trial: FrozenTrial) -> Mapping[str, Any]:
    """Parameters of a trial: what it finished with, chose or was enqueued with; empty where nothing is."""
    attrs = trial.system_attrs
    if trial.state.is_finished() and trial.params:
        return trial.params
    return attrs.get(CHOICE) or attrs.get(FIXED) or {}


def _config_of(space: SearchSpace, params: Mapping[str, Any]) -> Config | None:
    """The config of what is pending; None for an enqueued trial that leaves parameters to the sampler."""
    try:
        return space.config(params)
    except CostModelError:
        return None
