"""Workers on one study take turns: each chooses knowing what all before it chose.

Trials are numbered by their storage, one after the other, whichever process asks for them. That is the ticket
of a bakery lock (Lamport, "A new solution of Dijkstra's concurrent programming problem", CACM 17, 1974): a
trial waits until every running trial with a lower number has written down what it chose, chooses, and writes
that down itself. It needs nothing of the storage but trials and their attributes, so that it is the same in
memory, in SQLite and PostgreSQL, in a journal file and behind a gRPC proxy.
"""

import time
from contextlib import suppress
from dataclasses import asdict
from typing import Any

from optuna import Study, Trial
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState

from costmodel.liveness import ProcessMark

FIXED = "fixed_params"  # where Optuna keeps the parameters of an enqueued trial
# System attributes of a trial: the parameters chosen, empty where none could be; the process that asked for
# it; when that process last said that it is alive, in seconds since the epoch; whether it was given up.
CHOICE, OWNER, HEARTBEAT = "costmodel:choice", "costmodel:owner", "costmodel:heartbeat"
GIVEN_UP = "costmodel:given_up"
HEARTBEAT_EVERY_S = 20.0
# Screening a space before the first choice takes seconds to a minute: whoever takes this long was killed.
_LONGEST_CHOICE_S = 300.0
# A worker claims a trial milliseconds after it asked for it: one that does not was killed between.
_LONGEST_CLAIM_S = 30.0
# A worker on another host that has said nothing for so long is gone.
_LONGEST_SILENCE_S = 15 * HEARTBEAT_EVERY_S
_POLL_S = 0.02


def write_attr(study: Study, trial: FrozenTrial, key: str, value: Any) -> None:
    """Keep something with a running trial, as Optuna's own samplers keep their state."""
    study._storage.set_trial_system_attr(trial._trial_id, key, value)


def claim(study: Study, trial: FrozenTrial) -> None:
    """Write down that this process asked for the trial."""
    write_attr(study, trial, OWNER, asdict(ProcessMark.own()))


def wait_for_turn(study: Study, trial: FrozenTrial, given_up: set[int]) -> None:
    """Return once no other worker is choosing for a trial with a lower number.

    Args:
        study: The study.
        trial: The trial to choose for.
        given_up: Numbers of trials not to wait for again; those that took too long are added.
    """
    since = time.monotonic()
    while waiting := _choosing(study, trial.number, given_up):
        if time.monotonic() - since > _LONGEST_CHOICE_S:
            given_up.update(waiting)
            return
        time.sleep(_POLL_S)


def is_own(trial: FrozenTrial) -> bool:
    """Whether this process asked for the trial."""
    return bool(trial.system_attrs.get(OWNER) == asdict(ProcessMark.own()))


def is_abandoned(trial: FrozenTrial) -> bool:
    """Whether the process that asked for a running trial no longer holds it.

    On this host it does as long as it lives; on another, unless it is silent for five minutes. A trial that
    nobody claimed counts as abandoned after half a minute.
    """
    owner = trial.system_attrs.get(OWNER)
    started = trial.datetime_start.timestamp() if trial.datetime_start else 0.0
    if owner is None:
        return time.time() - started > _LONGEST_CLAIM_S
    process = ProcessMark(**owner)
    if process.is_of_this_host:  # where Optuna alone drives the sampler, nobody writes heartbeats
        return not process.holds()
    return not process.holds(trial.system_attrs.get(HEARTBEAT, started) + _LONGEST_SILENCE_S)


def give_up(study: Study, trial: Trial | FrozenTrial) -> None:
    """Prune a running trial that was not measured, so that its config may come again.

    One that was enqueued is enqueued again, unless the space had no such config.
    """
    with suppress(UpdateFinishedTrialError):  # its process told it, and ended, since it was looked at
        study._storage.set_trial_system_attr(trial._trial_id, GIVEN_UP, True)
        study.tell(trial.number, state=TrialState.PRUNED, skip_if_finished=True)
        attrs = study._storage.get_trial_system_attrs(trial._trial_id)
        if FIXED in attrs and attrs.get(CHOICE, attrs[FIXED]):
            study.enqueue_trial(attrs[FIXED])


def is_given_up(trial: FrozenTrial) -> bool:
    """Whether nobody measured a pruned trial; else whoever timed it pruned it."""
    return bool(trial.system_attrs.get(GIVEN_UP))


def _choosing(study: Study, number: int, given_up: set[int]) -> list[int]:
    """Numbers of the running trials below ``number`` whose choice is still to come."""
    running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
    return [
        trial.number
        for trial in running
        if trial.number < number
        and CHOICE not in trial.system_attrs
        and trial.number not in given_up
        and not is_abandoned(trial)
    ]
