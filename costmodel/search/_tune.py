"""The loop: propose, measure, learn, and again."""

from collections.abc import Callable

import optuna
from optuna.trial import FrozenTrial, TrialState

from costmodel.collect import Runner
from costmodel.errors import CostModelError
from costmodel.records import Measurement, Outcome
from costmodel.search._base import PoolSampler
from costmodel.search._pool import Pool
from costmodel.search._result import Provenance, TunedTrial, TuneResult
from costmodel.search._shortlist import PREDICTED_LATENCY, PREDICTED_RANK

_OUTCOME, _ERROR = "outcome", "error"
# Compiling takes seconds and measuring milliseconds: this many likely proposals are compiled side by side.
_LOOKAHEAD = 4


def tune(
    runner: Runner,
    sampler: PoolSampler,
    n_measurements: int,
    *,
    study: optuna.Study | None = None,
    on_trial: Callable[[TunedTrial], None] | None = None,
) -> TuneResult:
    """Search the sampler's pool for the candidate with the lowest latency, measuring only what is proposed.

    The study holds all that is known of the search, so one that was stopped goes on where it was when it is
    given again: ``n_measurements`` counts those that the study holds already.

    Args:
        runner: Measures, on the platform of the sampler's pool.
        sampler: Proposes candidates of its pool.
        n_measurements: Candidates to measure in all; never more than the pool holds.
        study: An Optuna study that minimises, with whatever storage; a new one in memory by default. Its
            sampler is replaced. One process at a time may tune it: trials that a killed one left running are
            given up.
        on_trial: Called after each measurement.

    Returns:
        All measured trials of the study.

    Raises:
        CostModelError: The study is of another pool, or the runner cannot measure.
    """
    pool = sampler.pool
    study = _prepared(study or optuna.create_study(), sampler)
    while len(_finished(study)) < min(n_measurements, len(pool)):
        runner.prefetch(sampler.upcoming(study, _LOOKAHEAD))
        trial = study.ask(pool.distributions)
        candidate = pool.candidates[pool.position(trial.params)]
        (measurement,) = runner.measure([candidate], pool.platform)
        _tell(study, trial, measurement)
        if on_trial:
            on_trial(_tuned(pool, study.get_trials(deepcopy=False)[trial.number]))
    trials = tuple(_tuned(pool, trial) for trial in _finished(study))
    provenance = Provenance(runner.description, sampler.knowledge, pool.pool_id, len(pool), len(trials))
    return TuneResult(pool.platform, trials, provenance)


def _prepared(study: optuna.Study, sampler: PoolSampler) -> optuna.Study:
    """The study with this sampler, and nothing left running.

    Raises:
        CostModelError: The study is of another pool.
    """
    pool_id, known = sampler.pool.pool_id, study.user_attrs.get("pool_id")
    if study.trials and known != pool_id:
        raise CostModelError(
            f"Study {study.study_name!r} must be of this pool ({pool_id}), but it is of "
            f"{known or 'something else'}. Use a new study."
        )
    study.set_user_attr("pool_id", pool_id)
    study.sampler = sampler
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        study.tell(trial.number, state=TrialState.PRUNED)
    return study


def _finished(study: optuna.Study) -> list[FrozenTrial]:
    """Trials that were measured, failures included."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.FAIL))


def _tell(study: optuna.Study, trial: optuna.Trial, measurement: Measurement) -> None:
    """Store a measurement. A failure is a failed trial with its outcome, never a huge latency."""
    trial.set_user_attr(_OUTCOME, measurement.outcome.value)
    if measurement.outcome is Outcome.OK:
        study.tell(trial, measurement.latency_s)
    else:
        trial.set_user_attr(_ERROR, measurement.error)
        study.tell(trial, state=TrialState.FAIL)


def _tuned(pool: Pool, trial: FrozenTrial) -> TunedTrial:
    """What a stored trial says."""
    return TunedTrial(
        number=trial.number,
        candidate=pool.candidates[pool.position(trial.params)],
        outcome=Outcome(trial.user_attrs[_OUTCOME]),
        latency_s=float("inf") if trial.value is None else trial.value,
        error=trial.user_attrs.get(_ERROR, ""),
        predicted_latency_s=trial.system_attrs.get(PREDICTED_LATENCY),
        predicted_rank=trial.system_attrs.get(PREDICTED_RANK),
    )
