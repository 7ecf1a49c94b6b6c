"""A search, step by step: propose, build ahead, measure, and learn."""

import math
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import optuna

from costmodel.arrays import FloatArray
from costmodel.collector.runners._base import Runner
from costmodel.errors import CostModelError, SpaceExhaustedError, shorten
from costmodel.reading import refusing
from costmodel.records._candidate import Candidate, Config
from costmodel.records._measurement import Measurement, Outcome
from costmodel.search._ask import Proposals, missing_trials
from costmodel.search._drift_watch import DriftWatch
from costmodel.search._provenance import Provenance
from costmodel.search._result import SearchResult
from costmodel.search._stopping import StopGain
from costmodel.search._study import give_up_abandoned
from costmodel.search._trial import Trial, tell
from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._history import FINISHED, drifts_of, present_factors
from costmodel.search.samplers._model import ModelSampler
from costmodel.search.spaces._base import SearchSpace

# A batch is at most this share of all trials, and all that is in flight at most twice as much, so that half
# of them are chosen knowing others.
_BATCH_SHARE = 0.25
# Candidates in flight for each that the runner works on at once. They are measured in order, so that one that
# takes long to build would leave builders idle if there were not others.
_AHEAD = 2
# User attributes of a study: what it searches, what for, and what its values are relative to.
_SPACE, _GOAL, _REFERENCE = "costmodel:space", "costmodel:goal", "costmodel:reference_s"
# What a study must be, and what to do if it is not: whoever shares its file or database may have changed it.
_WRITTEN = ("one that a search of this version wrote", "Restore it from a copy, or use a new study.")
# Rounds of measuring again: the first may make a drift suspected, which the second settles in most cases.
_REPEAT_ROUNDS = 2
# What fails for these reasons fails at every budget: the rest need not be tried.
_EVERYWHERE = (Outcome.INVALID_CONFIG, Outcome.COMPILE_ERROR)


class Search:
    """A search for good kernels of a space, which measures only proposed candidates, at every SM budget.

    Candidates are proposed in batches. If the runner builds kernels, some batches are built while the one
    before them is measured. A batch is chosen from all results except those of the batches in flight, however
    long each takes, so the same seed and the same results give the same search.

    A runner that ``repeats`` measures a known kernel again after every twenty measurements, in addition to
    the requested ones, and more often if latencies seem to drift. Other clocks or other software change all
    latencies by one factor, which would look like good or bad choices. Latencies measured before a drift are
    multiplied by this factor.

    Args:
        runner: Runner that measures on the platforms of the sampler's space.
        sampler: Sampler that proposes configs of its space.
        n_measurements: Total number of candidates to measure. The search ends earlier if the space is
            exhausted.
        study: An Optuna study that minimises, with any storage; its sampler is replaced. Default: a new study
            in memory.
        first: Configs of the space to measure before any proposal, if the study is new.
        batch: Number of candidates to propose at once. Larger batches are measured sooner if the runner
            builds in parallel, but are chosen with less knowledge. Default: half of what the
            runner works on at once, at most a quarter of all.
        stop_gain: Stop when the expected gain of the next measurement is below this share of the best latency
            (see ``StopGain``). Requires a ``ModelSampler``. Default: make all measurements.
        on_trial: Called after each candidate is measured.

    Attributes:
        total: Total number of candidates to measure, as far as the space has that many.

    Raises:
        CostModelError: The study belongs to another space or another objective, or is damaged.
        TypeError: ``stop_gain`` is given with a sampler without a model.
    """

    def __init__(  # noqa: PLR0913 (settings, all but three with defaults)
        self,
        runner: Runner,
        sampler: SpaceSampler,
        n_measurements: int,
        *,
        study: optuna.Study | None = None,
        first: Sequence[Config] = (),
        batch: int | None = None,
        stop_gain: float | None = None,
        on_trial: Callable[[Trial], None] | None = None,
    ) -> None:
        self._runner, self._sampler, self._space = runner, sampler, sampler.space
        self._study = _prepared(study or optuna.create_study(), sampler)
        if not self._study.trials:
            self.ask_for(first)
        self._reference_s = _reference_of(self._study)
        size = self._space.size
        self.total = n_measurements if size is None else min(n_measurements, size)
        self._batch, self._batches = batches_in_flight(runner.in_flight, self.total, batch)
        self._stop = _stopping(sampler, stop_gain)
        self._on_trial = on_trial
        self._proposed = Proposals(self._study, self._space, self.total)
        self._watch = DriftWatch(self._study, self._space) if runner.repeats else None

    def ask_for(self, configs: Sequence[Config]) -> None:
        """Have configs of the space measured before what is proposed next, unless the study has them."""
        for config in configs:
            self._study.enqueue_trial(self._space.params(config), skip_if_exists=True)

    def propose(self) -> bool:
        """Have enough proposals in flight; whether there is anything to measure."""
        while len(self._proposed) < self._batches and not (self._stop and self._stop.is_reached(self._study)):
            missing = missing_trials(self._study, self.total, waits=not self._proposed)
            if not missing:
                break
            try:
                candidates = self._proposed.ask(min(self._batch, missing))
            except SpaceExhaustedError:
                break
            if self._batches > 1:
                self._runner.prefetch(candidates)
        return len(self._proposed) > 0

    def measure(self) -> None:
        """Measure the batch that was proposed first, and learn from it.

        Raises:
            CostModelError: The runner cannot measure.
        """
        for trial, measured in self._proposed.measure(partial(_at_all_budgets, self._runner, self._space)):
            tell(self._study, trial, measured, self._sampler, self._reference_s)
            told = Trial.of(self._study.get_trials(deepcopy=False)[trial.number], self._space)
            if self._watch:
                self._watch.told(trial.number)
                self._measure_again(self._watch)
            if self._on_trial:
                self._on_trial(told)

    def _measure_again(self, watch: DriftWatch) -> None:
        """Measure known kernels again, as far as that is due, on the most SMs."""
        for _ in range(_REPEAT_ROUNDS):
            for number, config in watch.to_repeat().items():
                candidate = self._space.candidate(config)
                (again,) = self._runner.measure([candidate], self._space.platforms[-1], visit=1)
                watch.repeated(number, again.latency_s)

    @property
    def in_flight(self) -> list[optuna.Trial]:
        """What was proposed and is not told yet; may be asked for by any thread."""
        return self._proposed.trials

    def close(self) -> None:
        """Give up what is in flight."""
        self._proposed.give_up()

    @property
    def left(self) -> int:
        """Candidates that are still to be measured."""
        return max(0, self.total - len(self._study.get_trials(deepcopy=False, states=FINISHED)))

    @property
    def expected_gain(self) -> float | None:
        """By which share of the best latency another measurement is expected to improve on it.

        None where the sampler has no model, or this one cannot tell; see ``ModelSampler.expected_gain``.
        """
        sampler = self._sampler
        return sampler.expected_gain(self._study) if isinstance(sampler, ModelSampler) else None

    @property
    def result(self) -> SearchResult:
        """All measured trials of the study."""
        study, space, sampler = self._study, self._space, self._sampler
        finished = study.get_trials(deepcopy=False, states=FINISHED)
        now = present_factors(study, [trial.number for trial in finished]).tolist()
        trials = tuple(Trial.of(each, space).times(by) for each, by in zip(finished, now, strict=True))
        size = space.whole.size
        screened = getattr(sampler, "screened", 0) if size is None else size
        knowledge = sampler.knowledge
        provenance = Provenance(self._runner.description, knowledge, space.space_id, screened, len(trials))
        return SearchResult(space.platforms, sampler.objective, trials, provenance, drifts_of(study))


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
    with refusing(f"Study {study.study_name!r}", *_WRITTEN):
        has_trials = bool(study.trials)  # looked for first: whoever asks has said before of which space
        said = study.user_attrs
    space_id, known, begun = sampler.space.space_id, said.get(_SPACE), said.get(_GOAL)
    if has_trials and known != space_id:
        raise CostModelError(
            f"Study {study.study_name!r} must be of this space ({space_id}), but it is of "
            f"{shorten(known or 'something else')}. Use a new study."
        )
    objective = sampler.objective
    goal = f"{sampler.goal.value}, {objective.name.value}, weights {list(objective.weights)}"
    if begun is None:
        study.set_user_attr(_SPACE, space_id)
        if len(sampler.space.platforms) > 1:  # at one the value is the latency itself
            study.set_user_attr(_REFERENCE, sampler.reference_s.tolist())
        study.set_user_attr(_GOAL, goal)
    elif begun != goal:
        raise CostModelError(
            f"Study {study.study_name!r} must be for the same objective ({goal}), but it is for "
            f"{shorten(begun)}. "
            "Use a new study."
        )
    study.sampler = sampler
    with refusing(f"Study {study.study_name!r}", *_WRITTEN):
        give_up_abandoned(study)
        _check_trials(study, sampler.space)
    return study


def _check_trials(study: optuna.Study, space: SearchSpace) -> None:
    """Check that all can be read that the search will read of its trials.

    Raises:
        ValueError: A trial tells of other budgets, or of times that none has; other exceptions are possible.
    """
    budgets = (len(space.platforms),)
    numbers = []
    for each in study.get_trials(deepcopy=False, states=FINISHED):
        told = Trial.of(each, space)
        numbers.append(told.number)
        latencies_s = np.array(told.latency_s, dtype=np.float64)
        if latencies_s.shape != budgets or len(told.outcomes) != len(latencies_s) or (latencies_s <= 0).any():
            raise ValueError(f"trial {told.number} has no outcome and latency for each number of SMs")
    present_factors(study, numbers)
    drifts_of(study)
    if _reference_of(study).shape not in (budgets, (1,)):
        raise ValueError("what its values are relative to is no latency for each number of SMs")


def _reference_of(study: optuna.Study) -> FloatArray:
    return np.array(study.user_attrs.get(_REFERENCE, [1.0]), dtype=np.float64)


def _at_all_budgets(
    runner: Runner, space: SearchSpace, candidates: Sequence[Candidate]
) -> list[list[Measurement]]:
    """Measurements of each candidate, one a budget; fewer of one that works at none."""
    measured: list[list[Measurement]] = [[] for _ in candidates]
    for platform in space.platforms:
        left = [i for i, told in enumerate(measured) if not told or not _fails_everywhere(told[-1])]
        if left:
            for i, one in zip(left, runner.measure([candidates[i] for i in left], platform), strict=True):
                measured[i].append(one)
    return measured


def _fails_everywhere(measurement: Measurement) -> bool:
    return measurement.outcome in _EVERYWHERE and not measurement.is_passing


def batches_in_flight(in_flight: int, trials: int, batch: int | None = None) -> tuple[int, int]:
    """Candidates in a batch, and batches that are built or measured at once.

    Args:
        in_flight: Candidates that the runner works on at once.
        trials: Candidates to measure in all.
        batch: Candidates in a batch, where that is settled. Unless given, two batches are what the runner
            works on at once, as far as a quarter of all trials is not less.
    """
    size = batch or max(1, min(in_flight // 2, math.ceil(_BATCH_SHARE * trials)))
    if in_flight < 2 * size:
        return size, 1
    return size, max(2, min(_AHEAD * in_flight, trials // 2) // size)
