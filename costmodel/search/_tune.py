"""The loop: propose, measure, learn, and again."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

import optuna
from optuna.trial import FrozenTrial, TrialState

from costmodel.collect import Runner
from costmodel.errors import CostModelError
from costmodel.records import Candidate, Measurement, Outcome
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search._stopping import StopGain
from costmodel.search._study import give_up_abandoned
from costmodel.search.samplers import (
    FINISHED,
    HEARTBEAT,
    HEARTBEAT_EVERY_S,
    PREDICTED_LATENCY,
    PREDICTED_RANK,
    ModelSampler,
    SpaceSampler,
    chosen_params,
    is_own,
)
from costmodel.spaces import SearchSpace

Told = TypeVar("Told")

_OUTCOME, _ERROR, _SPACE = "outcome", "error", "space_id"
# Compiling takes seconds and measuring milliseconds: this many likely proposals are compiled side by side.
LOOKAHEAD = 4
_POLL_S = 0.05


def tune(  # noqa: PLR0913 (settings, all but three with defaults)
    runner: Runner,
    sampler: SpaceSampler,
    n_measurements: int,
    *,
    study: optuna.Study | None = None,
    batch: int = 1,
    stop_gain: float | None = None,
    on_trial: Callable[[TunedTrial], None] | None = None,
) -> TuneResult:
    """Search the sampler's space for the config with the lowest latency, measuring only what is proposed.

    The study holds all that is known of the search, so one that was stopped or killed goes on where it was
    when it is given again: ``n_measurements`` counts those that the study holds already. Several processes
    may tune one study at once, through any storage that they share; none measures what another has. Trials
    of a process that is gone are given up, and their configs may come again.

    Args:
        runner: Measures, on the platform of the sampler's space.
        sampler: Proposes configs of its space.
        n_measurements: Candidates to measure in all; never more than the space holds.
        study: An Optuna study that minimises, with whatever storage; a new one in memory by default. Its
            sampler is replaced.
        batch: Candidates to hand to the runner at once. More are measured sooner where it builds side by
            side, and chosen with less knowledge.
        stop_gain: End when the next measurement is expected to gain less than this share of the best latency
            (see ``StopGain``); it takes a ``ModelSampler``. None to make all measurements.
        on_trial: Called after each measurement.

    Returns:
        All measured trials of the study.

    Raises:
        CostModelError: The study is of another space, or the runner cannot measure.
        TypeError: ``stop_gain`` is given with a sampler without a model.
    """
    space = sampler.space
    study = prepare_study(study or optuna.create_study(), sampler)
    total = n_measurements if space.size is None else min(n_measurements, space.size)
    stop = _stopping(sampler, stop_gain)
    measure = partial(runner.measure, platform=space.platform)
    while (missing := missing_trials(study, total)) and not (stop and stop.is_reached(study)):
        if batch == 1:
            runner.prefetch(sampler.likely_next(study, LOOKAHEAD))
        for trial, measurement in measure_trials(study, space, min(batch, missing), total, measure):
            _tell(study, trial, measurement)
            if on_trial:
                on_trial(_tuned(space, study.get_trials(deepcopy=False)[trial.number]))
    measured = study.get_trials(deepcopy=False, states=FINISHED)
    trials = tuple(_tuned(space, trial) for trial in measured)
    screened = getattr(sampler, "screened", 0) if space.size is None else space.size
    provenance = Provenance(runner.description, sampler.knowledge, space.space_id, screened, len(trials))
    return TuneResult(space.platform, trials, provenance)


def _stopping(sampler: SpaceSampler, gain: float | None) -> StopGain | None:
    if gain is None:
        return None
    if not isinstance(sampler, ModelSampler):
        raise TypeError(f"stop_gain takes a ModelSampler, but got a {type(sampler).__name__}")
    return StopGain(sampler, gain)


def prepare_study(study: optuna.Study, sampler: SpaceSampler) -> optuna.Study:
    """The study with this sampler, and nothing left running by a process that is gone.

    Raises:
        CostModelError: The study is of another space.
    """
    space_id, known = sampler.space.space_id, study.user_attrs.get(_SPACE)
    if study.trials and known != space_id:
        raise CostModelError(
            f"Study {study.study_name!r} must be of this space ({space_id}), but it is of "
            f"{known or 'something else'}. Use a new study."
        )
    study.set_user_attr(_SPACE, space_id)
    study.sampler = sampler
    give_up_abandoned(study)
    return study


def missing_trials(study: optuna.Study, total: int) -> int:
    """Measurements to ask for now; where others make the last ones, 0 once these are done.

    Waiting for them, rather than leaving, makes up for a worker that is killed at the end.
    """
    while True:
        trials = study.get_trials(deepcopy=False)
        running = [t for t in trials if t.state is TrialState.RUNNING]
        missing = total - len(running) - sum(t.state in FINISHED for t in trials)
        if missing > 0 or all(is_own(t) for t in running):
            return max(0, missing)
        give_up_abandoned(study)
        time.sleep(_POLL_S)


def measure_trials(
    study: optuna.Study,
    space: SearchSpace,
    count: int,
    total: int,
    measure: Callable[[Sequence[Candidate]], Sequence[Told]],
) -> Iterator[tuple[optuna.Trial, Told]]:
    """Ask for so many and measure them together; those not taken when interrupted are given up.

    Yields:
        A trial that is to be told, and what ``measure`` gave for its candidate.
    """
    trials: list[optuna.Trial] = []
    try:
        trials = [trial for _ in range(count) if (trial := _ask(study, total))]
        candidates = [space.candidate(space.suggest(trial)) for trial in trials]
        with _heartbeat(trials):
            measured = measure(candidates) if trials else []
        for told in measured:
            yield trials.pop(0), told
    finally:
        for trial in trials:
            study.tell(trial, state=TrialState.PRUNED)


def _ask(study: optuna.Study, total: int) -> optuna.Trial | None:
    """A trial; None where those that others asked for before are enough."""
    trial = study.ask()
    before = study.get_trials(deepcopy=False)[: trial.number]
    if sum(t.state in (*FINISHED, TrialState.RUNNING) for t in before) < total:
        return trial
    study.tell(trial, state=TrialState.PRUNED)
    return None


@contextmanager
def _heartbeat(trials: Sequence[optuna.Trial]) -> Iterator[None]:
    """Let workers on other hosts know, while these trials are measured, that this process lives."""
    done = threading.Event()

    def beat() -> None:
        while not done.wait(HEARTBEAT_EVERY_S):
            for trial in trials:
                trial.storage.set_trial_system_attr(trial._trial_id, HEARTBEAT, time.time())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def _tell(study: optuna.Study, trial: optuna.Trial, measurement: Measurement) -> None:
    """Store a measurement. A failure is a failed trial with its outcome, never a huge latency."""
    trial.set_user_attr(_OUTCOME, measurement.outcome.value)
    if measurement.outcome is Outcome.OK:
        study.tell(trial, measurement.latency_s)
    else:
        trial.set_user_attr(_ERROR, measurement.error)
        study.tell(trial, state=TrialState.FAIL)


def _tuned(space: SearchSpace, trial: FrozenTrial) -> TunedTrial:
    """What a stored trial says."""
    return TunedTrial(
        number=trial.number,
        candidate=space.candidate(space.config(chosen_params(trial))),
        outcome=Outcome(trial.user_attrs[_OUTCOME]),
        latency_s=float("inf") if trial.value is None else trial.value,
        error=trial.user_attrs.get(_ERROR, ""),
        predicted_latency_s=trial.system_attrs.get(PREDICTED_LATENCY),
        predicted_rank=trial.system_attrs.get(PREDICTED_RANK),
    )
