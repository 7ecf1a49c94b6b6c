"""The loop for several SM budgets: propose a kernel, measure it on all of them, learn, and again."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import optuna
from optuna.trial import FrozenTrial, TrialState

from costmodel.arrays import FloatArray
from costmodel.collect import Runner
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Measurement, Outcome
from costmodel.search._budgets_result import BudgetsResult, BudgetsTrial
from costmodel.search._result import Provenance
from costmodel.search._tune import LOOKAHEAD, measure_trials, missing_trials, prepare_study
from costmodel.search.samplers import (
    FINISHED,
    LATENCIES,
    PREDICTED_LATENCY,
    BudgetsSampler,
    chosen_params,
    latencies_of,
)
from costmodel.spaces import BudgetsSpace

_OUTCOMES, _ERROR, _REFERENCE, _GOAL = "outcomes", "error", "reference_s", "goal"
# What fails for these reasons fails on every budget: the rest need not be tried.
_EVERYWHERE = (Outcome.INVALID_CONFIG, Outcome.COMPILE_ERROR)


def tune_budgets(  # noqa: PLR0913 (settings, all but three with defaults)
    runner: Runner,
    sampler: BudgetsSampler,
    n_measurements: int,
    *,
    study: optuna.Study | None = None,
    batch: int = 1,
    on_trial: Callable[[BudgetsTrial], None] | None = None,
) -> BudgetsResult:
    """Search for kernels that serve several SM budgets, measuring each proposal on all of them.

    One trial is one kernel: its latencies are in the trial's user attribute ``latency_s``, null for a
    failure, its value is that of ``BudgetsSampler.value``. A kernel that fails on a budget fails its trial;
    what it did on the others is learned from all the same, and it may still be part of a portfolio. Studies
    are resumed and shared as in ``tune``.

    Args:
        runner: Measures, on the platforms of the sampler's space.
        sampler: Proposes configs of its space.
        n_measurements: Candidates to measure in all; never more than the space holds.
        study: As for ``tune``.
        batch: Candidates to hand to the runner at once, as for ``tune``.
        on_trial: Called after each candidate was measured.

    Raises:
        CostModelError: The study is of another space or another objective, or the runner cannot measure.
    """
    space = sampler.space
    study = prepare_study(study or optuna.create_study(), sampler)
    reference_s = _fixed_reference(study, sampler)
    total = n_measurements if space.size is None else min(n_measurements, space.size)
    measure = partial(_on_all_budgets, runner, space)
    while count := missing_trials(study, total):
        if batch == 1:
            runner.prefetch(sampler.likely_next(study, LOOKAHEAD))
        for trial, told in measure_trials(study, space, min(batch, count), total, measure):
            _tell(study, trial, told, sampler, reference_s)
            if on_trial:
                on_trial(_tuned(space, study.get_trials(deepcopy=False)[trial.number]))
    trials = tuple(_tuned(space, t) for t in study.get_trials(deepcopy=False, states=FINISHED))
    screened = sampler.screened if space.size is None else space.size
    provenance = Provenance(runner.description, sampler.knowledge, space.space_id, screened, len(trials))
    return BudgetsResult(space.platforms, sampler.known.objective, trials, provenance)


def _fixed_reference(study: optuna.Study, sampler: BudgetsSampler) -> FloatArray:
    """The reference of the study's values, fixed by whoever began it.

    Raises:
        CostModelError: The study was begun for another objective.
    """
    objective = sampler.known.objective
    goal = f"{sampler.known.goal.value}, {objective.name.value}, weights {list(objective.weights)}"
    begun = study.user_attrs.get(_GOAL)
    if begun is None:
        study.set_user_attr(_REFERENCE, sampler.reference_s.tolist())
        study.set_user_attr(_GOAL, goal)
    elif begun != goal:
        raise CostModelError(
            f"Study {study.study_name!r} must be for the same objective ({goal}), but it is for {begun}. "
            "Use a new study."
        )
    return np.array(study.user_attrs[_REFERENCE])


def _on_all_budgets(
    runner: Runner, space: BudgetsSpace, candidates: Sequence[Candidate]
) -> list[list[Measurement]]:
    """Measurements of each candidate, one a budget; fewer of one that works on none."""
    measured: list[list[Measurement]] = [[] for _ in candidates]
    for platform in space.platforms:
        left = [i for i, told in enumerate(measured) if not told or told[-1].outcome not in _EVERYWHERE]
        if left:
            for i, one in zip(left, runner.measure([candidates[i] for i in left], platform), strict=True):
                measured[i].append(one)
    return measured


def _tell(
    study: optuna.Study,
    trial: optuna.Trial,
    told: Sequence[Measurement],
    sampler: BudgetsSampler,
    reference_s: FloatArray,
) -> None:
    """Store what was measured. A failure is a failed trial with its outcome, never a huge latency."""
    budgets = len(sampler.space.platforms)
    every = [told[min(i, len(told) - 1)] for i in range(budgets)]
    trial.set_user_attr(_OUTCOMES, [m.outcome.value for m in every])
    trial.set_user_attr(LATENCIES, [m.latency_s if m.outcome is Outcome.OK else None for m in every])
    if error := next((m.error for m in told if m.outcome is not Outcome.OK), ""):
        trial.set_user_attr(_ERROR, error)
    value = sampler.value(np.array([m.latency_s for m in every]), reference_s)
    if np.isfinite(value):
        study.tell(trial, value)
    else:
        study.tell(trial, state=TrialState.FAIL)


def _tuned(space: BudgetsSpace, trial: FrozenTrial) -> BudgetsTrial:
    """What a stored trial says."""
    predicted = trial.system_attrs.get(PREDICTED_LATENCY)
    return BudgetsTrial(
        number=trial.number,
        candidate=space.candidate(space.config(chosen_params(trial))),
        outcomes=tuple(Outcome(outcome) for outcome in trial.user_attrs[_OUTCOMES]),
        latency_s=tuple(latencies_of(trial, len(space.platforms)).tolist()),
        error=trial.user_attrs.get(_ERROR, ""),
        predicted_latency_s=tuple(predicted) if predicted else None,
    )
