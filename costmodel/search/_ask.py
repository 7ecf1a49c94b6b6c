"""Ask a shared study for trials, so that no trial is lost or made twice."""

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from typing import TypeVar

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import TrialState

from costmodel.errors import SpaceExhaustedError
from costmodel.liveness import renewing
from costmodel.records._candidate import Candidate
from costmodel.search._study import give_up_abandoned
from costmodel.search.samplers._history import FINISHED
from costmodel.search.samplers._turns import HEARTBEAT, HEARTBEAT_EVERY_S, give_up, is_own
from costmodel.search.spaces._base import SearchSpace

Told = TypeVar("Told")

_POLL_S = 0.05


def missing_trials(study: optuna.Study, total: int, *, waits: bool) -> int:
    """Measurements to ask for now; where others make the last ones, 0 once these are done.

    Waiting for them, rather than leaving, makes up for a worker that is killed at the end.

    Args:
        study: The study.
        total: Measurements that it is to have.
        waits: Whether to wait for others, who may be waiting for what is in flight here.
    """
    while True:
        trials = study.get_trials(deepcopy=False)
        running = [t for t in trials if t.state is TrialState.RUNNING]
        missing = total - len(running) - sum(t.state in FINISHED for t in trials)
        if missing > 0 or not waits or all(is_own(t) for t in running):
            return max(0, missing)
        give_up_abandoned(study)
        time.sleep(_POLL_S)


class Proposals:
    """Trials that were asked for and are not told yet, in batches, the oldest first.

    Args:
        study: Where they are asked for.
        space: What its sampler proposes configs of.
        total: Trials that the study is to have in the end.
    """

    def __init__(self, study: optuna.Study, space: SearchSpace, total: int) -> None:
        self._study, self._space, self._total = study, space, total
        self._batches: deque[list[optuna.Trial]] = deque()

    def __len__(self) -> int:
        return len(self._batches)

    def ask(self, count: int) -> list[Candidate]:
        """Ask for another batch of at most so many; fewer where the space or what others left is used up.

        Raises:
            SpaceExhaustedError: Not one config is left to ask for.
        """
        trials: list[optuna.Trial] = []
        self._batches.append(trials)
        try:
            for _ in range(count):
                if trial := _ask(self._study, self._total):
                    trials.append(trial)
        except SpaceExhaustedError:
            if not trials:
                self._batches.pop()
                raise
        return [self._space.candidate(self._space.suggest(trial)) for trial in trials]

    def measure(
        self, measure: Callable[[Sequence[Candidate]], Sequence[Told]]
    ) -> Iterator[tuple[optuna.Trial, Told]]:
        """Measure the oldest batch together.

        Yields:
            A trial that is to be told, and what ``measure`` gave for its candidate.
        """
        trials = self._batches[0]
        candidates = [self._space.candidate(self._space.suggest(trial)) for trial in trials]
        for told in measure(candidates) if trials else []:
            yield trials.pop(0), told
        self._batches.popleft()

    @property
    def trials(self) -> list[optuna.Trial]:
        """What was not told yet; may be asked for by any thread."""
        return [trial for batch in list(self._batches) for trial in list(batch)]

    def give_up(self) -> None:
        """Give up what was not told, so that its configs may come again."""
        for trial in self.trials:
            give_up(self._study, trial)
        self._batches.clear()


def _ask(study: optuna.Study, total: int) -> optuna.Trial | None:
    """A trial; None where those that others asked for before are enough."""
    trial = study.ask()
    before = study.get_trials(deepcopy=False)[: trial.number]
    if sum(t.state in (*FINISHED, TrialState.RUNNING) for t in before) < total:
        return trial
    give_up(study, trial)
    return None


def heartbeat(trials: Callable[[], Sequence[optuna.Trial]]) -> AbstractContextManager[None]:
    """Let workers on other hosts know, while trials are not told yet, that this process lives.

    Args:
        trials: Gives those that are not told; called by another thread.
    """

    def beat() -> None:
        for trial in trials():
            with suppress(UpdateFinishedTrialError):  # told since
                trial.storage.set_trial_system_attr(trial._trial_id, HEARTBEAT, time.time())

    return renewing(beat, HEARTBEAT_EVERY_S)
