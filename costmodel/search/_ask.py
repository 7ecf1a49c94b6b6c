"""Asking a study that several processes share for trials, so that none is lost and none is made twice."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import optuna
from optuna.trial import TrialState

from costmodel.errors import SpaceExhaustedError
from costmodel.records import Candidate
from costmodel.search._study import give_up_abandoned
from costmodel.search.samplers import FINISHED, HEARTBEAT, HEARTBEAT_EVERY_S, give_up, is_own
from costmodel.spaces import SearchSpace

Told = TypeVar("Told")

_POLL_S = 0.05


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

    Raises:
        SpaceExhaustedError: Not one config is left to ask for.
    """
    trials: list[optuna.Trial] = []
    try:
        _ask_for(study, count, total, trials)
        candidates = [space.candidate(space.suggest(trial)) for trial in trials]
        with _heartbeat(trials):
            measured = measure(candidates) if trials else []
        for told in measured:
            yield trials.pop(0), told
    finally:
        for trial in trials:
            give_up(study, trial)


def _ask_for(study: optuna.Study, count: int, total: int, trials: list[optuna.Trial]) -> None:
    """Add so many trials; fewer where the space or what others left of the total is used up."""
    for _ in range(count):
        try:
            trial = _ask(study, total)
        except SpaceExhaustedError:
            if trials:
                return
            raise
        if trial:
            trials.append(trial)


def _ask(study: optuna.Study, total: int) -> optuna.Trial | None:
    """A trial; None where those that others asked for before are enough."""
    trial = study.ask()
    before = study.get_trials(deepcopy=False)[: trial.number]
    if sum(t.state in (*FINISHED, TrialState.RUNNING) for t in before) < total:
        return trial
    give_up(study, trial)
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
