"""The loop: propose a kernel, measure it at every SM budget, learn, and again."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import optuna

from costmodel.collector import Runner
from costmodel.errors import CostModelError, SpaceExhaustedError
from costmodel.records import Candidate, Config, Measurement, Outcome
from costmodel.search._ask import measure_trials, missing_trials
from costmodel.search._provenance import Provenance
from costmodel.search._result import SearchResult
from costmodel.search._stopping import StopGain
from costmodel.search._study import give_up_abandoned
from costmodel.search._trial import Trial, tell
from costmodel.search.samplers import FINISHED, ModelSampler, SpaceSampler
from costmodel.spaces import SearchSpace

# User attributes of a study: what it searches, what for, and what its values are relative to.
_SPACE, _GOAL, _REFERENCE = "costmodel:space", "costmodel:goal", "costmodel:reference_s"
# Compiling takes seconds and measuring milliseconds: this many likely proposals are compiled side by side.
_LOOKAHEAD = 4
# What fails for these reasons fails at every budget: the rest need not be tried.
_EVERYWHERE = (Outcome.INVALID_CONFIG, Outcome.COMPILE_ERROR)


def tune(  # noqa: PLR0913 (settings, all but three with defaults)
    runner: Runner,
    sampler: SpaceSampler,
    n_measurements: int,
    *,
    study: optuna.Study | None = None,
    first: Sequence[Config] = (),
    batch: int = 1,
    stop_gain: float | None = None,
    on_trial: Callable[[Trial], None] | None = None,
) -> SearchResult:
    """Search the sampler's space for good kernels, measuring only what is proposed, at every SM budget.

    The study holds all that is known of the search, so one that was stopped or killed goes on where it was
    when it is given again: ``n_measurements`` counts those that the study holds already. Several processes
    may tune one study at once, through any storage that they share; none measures what another has. Trials
    of a process that is gone are given up, and their configs may come again.

    Args:
        runner: Measures, on the platforms of the sampler's space.
        sampler: Proposes configs of its space.
        n_measurements: Candidates to measure in all; the search ends before where the space is used up.
        study: An Optuna study that minimises, with whatever storage; a new one in memory by default. Its
            sampler is replaced.
        first: Configs of the space to measure before any that is proposed, where the study begins.
        batch: Candidates to hand to the runner at once. More are measured sooner where it builds side by
            side, and chosen with less knowledge.
        stop_gain: End when the next measurement is expected to gain less than this share of the best
            (see ``StopGain``); it takes a ``ModelSampler``. None to make all measurements.
        on_trial: Called after each candidate was measured.

    Returns:
        All measured trials of the study.

    Raises:
        CostModelError: The study is of another space or another objective, or the runner cannot measure.
        TypeError: ``stop_gain`` is given with a sampler without a model.
    """
    space = sampler.space
    study = _prepared(study or optuna.create_study(), sampler)
    if first and not study.trials:
        for config in first:
            study.enqueue_trial(space.params(config), skip_if_exists=True)
        runner.prefetch([space.candidate(config) for config in first])
    reference_s = np.array(study.user_attrs.get(_REFERENCE, [1.0]))
    total = n_measurements if space.size is None else min(n_measurements, space.size)
    stop = _stopping(sampler, stop_gain)
    measure = partial(_at_all_budgets, runner, space)
    with suppress(SpaceExhaustedError):
        while (missing := missing_trials(study, total)) and not (stop and stop.is_reached(study)):
            if batch == 1:
                runner.prefetch(sampler.likely_next(study, _LOOKAHEAD))
            for trial, measured in measure_trials(study, space, min(batch, missing), total, measure):
                tell(study, trial, measured, sampler, reference_s)
                if on_trial:
                    on_trial(Trial.of(study.get_trials(deepcopy=False)[trial.number], space))
    trials = tuple(Trial.of(trial, space) for trial in study.get_trials(deepcopy=False, states=FINISHED))
    screened = getattr(sampler, "screened", 0) if space.size is None else space.size
    provenance = Provenance(runner.description, sampler.knowledge, space.space_id, screened, len(trials))
    return SearchResult(space.platforms, sampler.objective, trials, provenance)


def _stopping(sampler: SpaceSampler, gain: float | None) -> StopGain | None:
    if gain is None:
        return None
    if not isinstance(sampler, ModelSampler):
        raise TypeError(f"stop_gain takes a ModelSampler, but got a {type(sampler).__name__}")
    return StopGain(sampler, gain)


def _prepared(study: optuna.Study, sampler: SpaceSampler) -> optuna.Study:
    """The study with this sampler, and nothing left running by a process that is gone.

    Whoever begins a study fixes what its values are relative to.

    Raises:
        CostModelError: The study is of another space or another objective.
    """
    space_id, known = sampler.space.space_id, study.user_attrs.get(_SPACE)
    if study.trials and known != space_id:
        raise CostModelError(
            f"Study {study.study_name!r} must be of this space ({space_id}), but it is of "
            f"{known or 'something else'}. Use a new study."
        )
    objective = sampler.objective
    goal = f"{sampler.goal.value}, {objective.name.value}, weights {list(objective.weights)}"
    begun = study.user_attrs.get(_GOAL)
    if begun is None:
        study.set_user_attr(_SPACE, space_id)
        if len(sampler.space.platforms) > 1:  # at one the value is the latency itself
            study.set_user_attr(_REFERENCE, sampler.reference_s.tolist())
        study.set_user_attr(_GOAL, goal)
    elif begun != goal:
        raise CostModelError(
            f"Study {study.study_name!r} must be for the same objective ({goal}), but it is for {begun}. "
            "Use a new study."
        )
    study.sampler = sampler
    give_up_abandoned(study)
    return study


def _at_all_budgets(
    runner: Runner, space: SearchSpace, candidates: Sequence[Candidate]
) -> list[list[Measurement]]:
    """Measurements of each candidate, one a budget; fewer of one that works at none."""
    measured: list[list[Measurement]] = [[] for _ in candidates]
    for platform in space.platforms:
        left = [i for i, told in enumerate(measured) if not told or told[-1].outcome not in _EVERYWHERE]
        if left:
            for i, one in zip(left, runner.measure([candidates[i] for i in left], platform), strict=True):
                measured[i].append(one)
    return measured
