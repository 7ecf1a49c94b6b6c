"""Studies in files and databases, which several processes can share and any can resume."""

import logging
import math
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, TrialState

from costmodel.databases import SQLITE_ENDINGS, parse_database
from costmodel.errors import CostModelError
from costmodel.failures import is_passing
from costmodel.files import behind_link
from costmodel.reading import check_place, exists
from costmodel.records._candidate import Config
from costmodel.records._line_file import move_torn_tail
from costmodel.search.samplers._turns import give_up, is_abandoned
from costmodel.search.spaces._base import SearchSpace

# A writer holds a journal's lock for milliseconds; one that was killed meanwhile stops the others this long.
_LOCK_S = 10
# Tables are made within this time; there are a dozen, at each of which another process may be ahead.
_AHEAD_S, _TRIES = 0.2, 20
_JOURNALS = (".log", ".journal")


def _remedy(place: str | None, said: str) -> str:
    """What to do about a study that cannot be opened, for which a library said this."""
    if is_passing(said):
        return "Run the same command again once the place answers and has room, or name another."
    if "://" in str(place):
        return "It must be a database of Optuna that answers, with its driver installed: correct the URL."
    return "It must be a journal or a database of Optuna: restore it from a copy, or name another place."


def open_study(place: str | None, name: str, *, shared: bool = True) -> optuna.Study:
    """Open the study with this name, or create it if it does not exist.

    Args:
        place: A path that ends in ``.log`` or ``.journal`` for a journal file, or in ``.db``, ``.sqlite`` or
            ``.sqlite3`` for SQLite; or an SQLAlchemy URL such as ``postgresql://host/name``. None for memory.
        name: Name of the study; one place may hold several studies.
        shared: Whether other processes may search in it meanwhile. One that they do not is worked on in
            memory, and each trial is written when it is finished.

    Raises:
        CostModelError: The place is none of these, cannot be opened, or holds a study that was altered.
    """
    try:
        storage = _storage(place, shared=shared)
        study = optuna.create_study(storage=storage, study_name=name, load_if_exists=True)
        numbers = [trial.number for trial in study.get_trials(deepcopy=False)]
    except CostModelError:
        raise
    except Exception as error:  # each driver raises errors of its own
        first = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise CostModelError(
            f"Cannot open the study {name!r} at {place}: {first.rstrip('. ')}. {_remedy(place, first)}"
        ) from error
    if numbers != list(range(len(numbers))):
        raise CostModelError(
            f"Trials of the study {name!r} at {place} must be numbered from 0 without a gap, but are not: it "
            "was altered. Restore it from a copy, or name another study."
        )
    return study if shared or place is None else _unshared(study)


def _unshared(study: optuna.Study) -> optuna.Study:
    return optuna.load_study(study_name=study.study_name, storage=_WrittenWhole(study))


class _WrittenWhole(InMemoryStorage):
    """A study in memory, each trial of which is written to where it is kept once it is finished.

    A search asks its study a hundred things for each trial. In a database each is a statement and every third
    a commit, which takes longer than many a measurement, and holds up all that share the database. What was
    not finished when a process is killed is not written; whoever goes on asks for it anew.

    Args:
        kept: The study where it is kept. No other process writes to it meanwhile.
    """

    def __init__(self, kept: optuna.Study) -> None:
        super().__init__()
        self._kept, self._kept_id = kept._storage, kept._study_id
        self._id = self.create_new_study(kept.directions, kept.study_name)
        for key, value in kept.user_attrs.items():
            super().set_study_user_attr(self._id, key, value)
        self._unfinished: dict[int, int] = {}  # trials that are kept already: their ids here and there
        trials = self._kept.get_all_trials(self._kept_id, deepcopy=False)
        for trial in trials:
            self._keep(super().create_new_trial(self._id, trial), trial._trial_id)
        self._written = len(trials)

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        super().set_study_user_attr(study_id, key, value)
        self._kept.set_study_user_attr(self._kept_id, key, value)

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        id_ = super().create_new_trial(study_id, template_trial)
        self._write()
        return id_

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        is_set = super().set_trial_state_values(trial_id, state, values)
        if state.is_finished() and trial_id in self._unfinished:
            self._finish(self.get_trial(trial_id), self._unfinished.pop(trial_id))
        self._write()
        return is_set

    def _write(self) -> None:
        """Write trials, in order of their numbers, up to one that runs."""
        for trial in self.get_all_trials(self._id, deepcopy=False)[self._written :]:
            if trial.state is TrialState.RUNNING:
                return
            self._keep(trial._trial_id, self._kept.create_new_trial(self._kept_id, trial))
            self._written += 1

    def _keep(self, id_: int, kept_id: int) -> None:
        if not self.get_trial(id_).state.is_finished():
            self._unfinished[id_] = kept_id

    def _finish(self, trial: FrozenTrial, kept_id: int) -> None:
        """Write what became of a trial that was kept before: it was enqueued, or its process is gone."""
        kept = self._kept
        kept.set_trial_state_values(kept_id, TrialState.RUNNING)
        known = kept.get_trial(kept_id)
        for name in trial.params.keys() - known.params.keys():
            distribution = trial.distributions[name]
            value = distribution.to_internal_repr(trial.params[name])
            kept.set_trial_param(kept_id, name, value, distribution)
        for name in trial.user_attrs:
            kept.set_trial_user_attr(kept_id, name, trial.user_attrs[name])
        for name in trial.system_attrs:
            kept.set_trial_system_attr(kept_id, name, trial.system_attrs[name])
        kept.set_trial_state_values(kept_id, trial.state, trial.values)


def add_known(study: optuna.Study, space: SearchSpace, config: Config, latency_s: float) -> None:
    """Add a measurement made before the search to its study, as a finished trial.

    Args:
        study: The study.
        space: Space of the config.
        config: The config that was measured.
        latency_s: Its latency in seconds; inf if it failed.
    """
    params, ran = space.params(config), math.isfinite(latency_s)
    trial = optuna.trial.create_trial(
        params=dict(params),
        distributions={name: space.distributions[name] for name in params},
        state=TrialState.COMPLETE if ran else TrialState.FAIL,
        value=latency_s if ran else None,
    )
    study.add_trial(trial)


def _storage(place: str | None, *, shared: bool) -> BaseStorage | None:
    if place is None:
        return None
    path = Path(place)
    if "://" not in place and path.suffix in _JOURNALS:
        check_place(path, "a study")
        path = behind_link(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = (JournalFileOpenLock if shared else _NoLock)(str(path), grace_period=_LOCK_S)
        if exists(path):
            _repair(path, lock)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=lock))
    url = parse_database(place, "A study", endings=_JOURNALS + SQLITE_ENDINGS)
    # Optuna formats the text of a URL, which has braces where a password has some.
    text = url.render_as_string(hide_password=False).replace("{", "{{").replace("}", "}}")
    if "://" in place:
        return _database(text, {"pool_pre_ping": True})  # a server may have closed what is in the pool
    path.parent.mkdir(parents=True, exist_ok=True)
    # A writer waits for others this long: several workers on a slow disk take a second now and then.
    return _database(text, {"connect_args": {"timeout": 60}})


class _NoLock(JournalFileOpenLock):
    """Of a journal that one process has: one that is killed holds up none that goes on."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


def _repair(path: Path, lock: JournalFileOpenLock) -> None:
    """Move half a line out of a journal: Optuna would write behind it, and then read neither."""
    lock.acquire()
    try:
        move_torn_tail(path, lambda line: not line.endswith(b"\n"))
    finally:
        lock.release()


def _database(url: str, engine: dict[str, Any] | None = None) -> RDBStorage:
    """A database with Optuna's tables. A process that makes them at the same moment may be ahead."""
    from sqlalchemy.exc import DBAPIError, IntegrityError

    for _ in range(_TRIES - 1):
        try:
            return RDBStorage(url, engine_kwargs=engine)
        except DBAPIError as error:
            if not isinstance(error, IntegrityError) and "already exists" not in str(error):
                raise
            time.sleep(_AHEAD_S)
    return RDBStorage(url, engine_kwargs=engine)


@contextmanager
def explaining_storage() -> Iterator[None]:
    """Say of a storage that fails amid a search how its driver says so, and that nothing told is lost.

    Raises:
        CostModelError: A storage of Optuna fails.
    """
    try:
        yield
    except CostModelError:
        raise
    except Exception as error:  # drivers and decoders raise what they like
        frames = traceback.walk_tb(error.__traceback__)
        if not any(frame.f_globals.get("__name__", "").startswith("optuna.storages") for frame, _ in frames):
            raise
        reason = error.__cause__ or error  # Optuna's own words name no reason
        first = (str(reason).splitlines() or [type(reason).__name__])[0].rstrip(". ")
        raise CostModelError(
            f"The storage of a study must answer, but: {first}. What was told is kept: the same command goes "
            "on once it does, or begins anew with a new study."
        ) from error


def give_up_abandoned(study: optuna.Study) -> None:
    """Prune the running trials whose process has died, so that their configs can be proposed again."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        if is_abandoned(trial):
            give_up(study, trial)


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Keep Optuna from logging studies and trials, as the search reports them itself."""
    log = logging.getLogger("optuna")
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)
