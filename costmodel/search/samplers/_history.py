"""The history of a study: configs that were measured, are pending or were pruned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError
from costmodel.records._candidate import Config
from costmodel.search._drift_monitor import Drift
from costmodel.search.samplers._turns import CHOICE, FIXED, is_given_up
from costmodel.search.spaces._base import SearchSpace

# User attribute of a study: ratio and first trial of each drift, in the order in which they were found.
_DRIFTS = "costmodel:drifts"


def drifts_of(study: Study) -> tuple[Drift, ...]:
    """What was found so far; ``since`` is the number of a trial."""
    return tuple(Drift(ratio, since) for ratio, since in study.user_attrs.get(_DRIFTS, ()))


def add_drift(study: Study, drift: Drift) -> None:
    """Keep another one."""
    known = [(each.ratio, each.since) for each in drifts_of(study)]
    study.set_user_attr(_DRIFTS, [*known, (drift.ratio, drift.since)])


def present_factors(study: Study, numbers: Sequence[int]) -> FloatArray:
    """``(m,)`` what latencies of these trials are to be multiplied by, to compare with those measured now."""
    factors = np.ones(len(numbers))
    for drift in drifts_of(study):
        factors[np.asarray(numbers, dtype=np.intp) < drift.since] *= drift.ratio
    return factors


FINISHED = (TrialState.COMPLETE, TrialState.FAIL)
# User attribute of a trial: seconds at each SM budget, in the order of the space's platforms; null for a
# failure.
LATENCIES = "latency_s"


@dataclass(frozen=True)
class History:
    """Configs of a study by what is known of them.

    Attributes:
        measured: Measured configs, in the order in which they were told.
        latency_s: ``(m, b)`` seconds of each at each SM budget; inf for a failure, NaN where it was not told.
            Where measured times drifted, those before are what they would be now.
        value: ``(m,)`` what the study minimises, of the same latencies; inf for a failure.
        pending: Configs that some worker is measuring or that wait in the queue.
        pruned: Configs whose trials somebody pruned: nothing is learned from them; they do not come again.
        excess: ``(m, c)`` what each trial was told of each constraint (``trial.set_constraint``): above 0 is
            too much, NaN where nothing was told; None where no trial was told any.
    """

    measured: tuple[Config, ...]
    latency_s: FloatArray
    value: FloatArray
    pending: tuple[Config, ...] = ()
    pruned: tuple[Config, ...] = ()
    excess: FloatArray | None = None

    @classmethod
    def nothing(cls, budgets: int) -> Self:
        """What is known before any trial at so many SM budgets."""
        return cls((), np.empty((0, budgets)), np.empty(0))

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
        trials = [(t, params) for t in study.get_trials(deepcopy=False) if (params := chosen_params(t))]
        finished = [(t, params) for t, params in trials if t.state in FINISHED]
        finished.sort(key=lambda told: (told[0].datetime_complete or datetime.max, told[0].number))
        pending = [params for t, params in trials if _is_pending(t, below)]
        pruned = [params for t, params in trials if t.state is TrialState.PRUNED and not is_given_up(t)]
        budgets = len(space.platforms)
        now = present_factors(study, [t.number for t, _ in finished])
        told = np.array([latencies_of(t, budgets) for t, _ in finished]).reshape(-1, budgets)
        value = np.array([value_of(t) for t, _ in finished], dtype=np.float64)
        return cls(
            tuple(space.config(params) for _, params in finished),
            told * now[:, None],
            value * now if budgets == 1 else value + np.log(now),
            tuple(config for params in pending if (config := _config_of(space, params))),
            tuple(config for params in pruned if (config := _config_of(space, params))),
            _excess([t for t, _ in finished]),
        )

    @cached_property
    def tried(self) -> frozenset[str]:
        """Ids of all of these configs."""
        return frozenset(config.config_id for config in (*self.measured, *self.pending, *self.pruned))

    @property
    def best_s(self) -> FloatArray:
        """``(b,)`` latency of the fastest at each SM budget in seconds; inf where nothing ran."""
        allowed = np.where(self._is_feasible[:, None], self.latency_s, np.inf)
        return np.asarray(np.fmin.reduce(allowed, axis=0, initial=np.inf))

    @property
    def _is_feasible(self) -> NDArray[np.bool_]:
        """``(m,)`` whether no constraint was broken."""
        if self.excess is None:
            return np.ones(len(self.measured), dtype=bool)
        return np.asarray(~(self.excess > 0.0).any(axis=1))

    def agrees(self, other: Self) -> bool:
        """Whether the same was measured."""
        return self.measured == other.measured and np.array_equal(
            self.latency_s, other.latency_s, equal_nan=True
        )

    def first(self, count: int) -> Self:
        """The history when so many had been measured."""
        return self._rows(np.arange(min(count, len(self.measured))))

    def fastest(self, count: int) -> list[Config]:
        """The measured configs with the smallest values, so many; those that break a constraint come last."""
        return [self.measured[i] for i in self._fastest_first[:count]]

    def essence(self, count: int) -> Self:
        """At most so many of what was measured: the fastest half, and others evenly spaced in time."""
        if len(self.measured) <= count:
            return self
        fastest, others = np.split(self._fastest_first, [count // 2])
        spaced = np.linspace(0, len(others) - 1, count - count // 2).astype(np.intp)
        return self._rows(np.sort(np.concatenate([fastest, np.sort(others)[spaced]])))

    @property
    def _fastest_first(self) -> Positions:
        return np.argsort(np.where(self._is_feasible, self.value, np.inf), kind="stable")

    def _rows(self, rows: Positions) -> Self:
        """Some of what was measured, and nothing that was not."""
        excess = None if self.excess is None else self.excess[rows]
        measured = tuple(self.measured[int(row)] for row in rows)
        return type(self)(measured, self.latency_s[rows], self.value[rows], excess=excess)


def latencies_of(trial: FrozenTrial, budgets: int) -> FloatArray:
    """``(b,)`` seconds that a finished trial was told; inf for a failure, NaN where nothing is known.

    They stand in its user attribute ``latency_s``. A study of one SM budget needs none: there the value of a
    trial is its latency.
    """
    told = trial.user_attrs.get(LATENCIES)
    if told is not None:
        return np.array([np.inf if latency is None else latency for latency in told], dtype=np.float64)
    if budgets > 1:
        return np.full(budgets, np.nan)
    return np.array([value_of(trial)])


def value_of(trial: FrozenTrial) -> float:
    """What a trial was told that the study minimises; inf for a failure."""
    return float("inf") if trial.value is None else trial.value


def chosen_params(trial: FrozenTrial) -> Mapping[str, Any]:
    """Parameters of a trial: what it finished with, chose or was enqueued with; empty where nothing is."""
    attrs = trial.system_attrs
    if trial.state.is_finished() and trial.params:
        return trial.params
    return attrs.get(CHOICE) or attrs.get(FIXED) or {}


def _is_pending(trial: FrozenTrial, below: int | None) -> bool:
    """Whether somebody measures it, or it waits."""
    running = trial.state is TrialState.RUNNING and (below is None or trial.number < below)
    return running or trial.state is TrialState.WAITING


def _config_of(space: SearchSpace, params: Mapping[str, Any]) -> Config | None:
    """The config of what is pending; None for an enqueued trial that leaves parameters to the sampler."""
    try:
        return space.config(params)
    except CostModelError:
        return None


def _excess(trials: Sequence[FrozenTrial]) -> FloatArray | None:
    """``(m, c)`` what trials were told of each constraint, by name; None where none was told."""
    told = [trial.constraints for trial in trials]
    names = sorted({name for each in told for name in each})
    if not names:
        return None
    return np.array([[each.get(name, np.nan) for name in names] for each in told], dtype=np.float64)
