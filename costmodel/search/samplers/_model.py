"""The sampler that asks a transfer model first and the device last."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.trial import FrozenTrial

from costmodel.arrays import FloatArray
from costmodel.errors import InvalidConfigError
from costmodel.learners import Scaler
from costmodel.records import Candidate, Config
from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._expected_improvement import expected_improvement
from costmodel.search.samplers._history import History
from costmodel.search.samplers._screening import neighbourhood, screen
from costmodel.search.samplers._turns import write_attr
from costmodel.spaces import DrawnConfigs, SearchSpace
from costmodel.transfer import FromScratch, Posterior, Predictor, TransferModel, shortlist

PREDICTED_LATENCY = "costmodel:predicted_latency_s"
PREDICTED_RANK = "costmodel:predicted_rank"

# After every so many measurements the space is drawn anew and screened with what was learned.
_RESCREEN_EVERY = 16
# Neighbours of so many of the fastest that were measured are looked at each time, so many of each.
_FASTEST, _NEIGHBOURS = 4, 32
# Choices made at once where several are pending: a batch takes them one by one while nothing new is learned.
_AT_ONCE = 64
# Draws of a large space that are all invalid or tried until nothing counts as left.
_LAST_DRAWS = 4


@dataclass
class ScoredConfigs:
    """What a sampler chooses from, after some measurements.

    Attributes:
        history: What had been measured.
        predictor: Predicts from features; its best score is what to measure next.
        drawn: The n configs.
        score: ``(n,)`` higher is better.
        latency_s: ``(n,)`` predicted seconds; None where the predictor cannot tell.
        batch: Rows to propose next while these measurements are all and others are pending, best first.
    """

    history: History
    predictor: Predictor
    drawn: DrawnConfigs
    score: FloatArray
    latency_s: FloatArray | None
    batch: list[int] = field(default_factory=list)

    def untried(self, tried: frozenset[str] | set[str]) -> NDArray[np.intp]:
        """Rows of the configs whose ids are not among these, best score first."""
        rows = np.flatnonzero(~np.isin(self.drawn.ids, sorted(tried)))
        return rows[np.argsort(-self.score[rows], kind="stable")]

    @cached_property
    def improvement(self) -> FloatArray:
        """``(n,)`` expected improvement of log latency of what was not measured, as far as it is worked out.

        0 for all others, and for all where nothing ran or the predictor has no joint belief.
        """
        found = np.zeros(len(self.drawn))
        if isinstance(self.predictor, Posterior) and np.isfinite(self.history.best_s):
            rows = self.untried(self.history.tried)
            improvement = expected_improvement(self.predictor, self.drawn.features[rows], self.history.best_s)
            found[rows[: len(improvement)]] = improvement
        return found


class ModelSampler(SpaceSampler):
    """Proposes what a transfer model predicts to be fastest, and learns from every trial told.

    **Screening.** The model scores tens of thousands of configs of the space (all of a small one) by their
    features, without building any, and keeps the best two thousand and their like. After every 16
    measurements the space is drawn anew and screened with what was learned; in between, neighbours of the
    fastest that were measured join in.

    **Choice.** Most proposals exploit: the best score, and in turn with it, where the adapted model tells how
    sure it is, the largest expected improvement. Each ``explore_every``-th explores: any score in the
    best quarter of what is left. Among those that qualify, the one farthest in feature space from everything
    tried is proposed. That breaks the ties of tree models, and a model that knows nothing yet (all scores
    equal) fills the space.

    **Batches.** What is pending in other workers, or was asked for and not told, is believed to be as fast as
    predicted, and the next ones are chosen together so that one of them is expected to be fast (see
    ``costmodel.transfer.shortlist``); near-copies of what is pending add little to that.

    **Failures.** A config of which no kernel comes (``InvalidConfigError``) is passed over and costs no
    trial. A failed trial is learned from as an infinite latency.

    Predicted latency and rank of each proposal are kept as system attributes of its trial. With the same
    study and seed the same is proposed, in whatever process.

    Args:
        space: The space.
        model: A fitted transfer model of the space's features; it stays as it is. None to start from nothing.
        knowledge: What the model is and what it learned from, such as its name and the dataset's hash.
        screened: Configs drawn for each screening.
        explore_every: Every how many proposals one explores; 0 for never. On landscapes 8 found the best as
            fast as 0, and 4 a little later; exploring is there for the model that is wrong.
        seed: Seed of all random choices.

    Example:
        >>> sampler = ModelSampler(space, model)  # doctest: +SKIP
        >>> study = optuna.create_study(sampler=sampler)  # doctest: +SKIP
        >>> study.optimize(lambda trial: latency_s(space.suggest(trial)), n_trials=16)  # doctest: +SKIP
    """

    def __init__(  # noqa: PLR0913 (settings, all but the first with defaults)
        self,
        space: SearchSpace,
        model: TransferModel | None = None,
        *,
        knowledge: Mapping[str, str] | None = None,
        screened: int = 50_000,
        explore_every: int = 8,
        seed: int | None = 0,
    ) -> None:
        super().__init__(space, seed=seed)
        self.model = _from_nothing(space, self.rng(0)) if model is None else model
        self.knowledge = {
            "sampler": type(self).__name__,
            "model": type(self.model).__name__,
            **(knowledge or {}),
        }
        self.screened = screened
        self.explore_every = explore_every
        self._skipped: set[str] = set()
        self._screened: tuple[History, DrawnConfigs] | None = None
        self._scored: ScoredConfigs | None = None

    def scored(self, study: Study) -> ScoredConfigs:
        """What would be chosen from now, with its scores; worked out once for the same measurements."""
        with self._lock:
            return self._scored_after(History.of(study, self.space))

    def likely_next(self, study: Study, count: int) -> list[Candidate]:
        """The untried candidates with the best scores, behind those that improve most where that is known."""
        with self._lock:
            history = History.of(study, self.space)
            scored = self._scored_after(history)
            untried = scored.untried(history.tried | self._skipped)
            rows = np.concatenate([_most_improving(scored, untried)[: count // 2], untried])
            found = self._valid(scored, rows[np.sort(np.unique(rows, return_index=True)[1])], history.tried)
            return [candidate for _, (_, candidate) in zip(range(count), found, strict=False)]

    def expected_gain(self, study: Study) -> float | None:
        """By which share of the best latency the next measurement is expected to improve on it, at most 1.

        None where nothing ran yet, or the predictor has no joint belief to tell it by.
        """
        scored = self.scored(study)
        if not np.isfinite(scored.history.best_s) or not isinstance(scored.predictor, Posterior):
            return None
        untried = scored.untried(scored.history.tried | self._skipped)
        return float(1.0 - np.exp(-scored.improvement[untried].max(initial=0.0)))

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """The config to measure next; its prediction is kept with the trial."""
        scored = self._scored_after(history)
        rows = self._best_first(scored, history, trial.number)
        for row, candidate in self._valid(scored, rows, history.tried):
            self._remember(study, trial, scored, row)
            return candidate.config
        return self._any_left(history, trial.number)

    def _scored_after(self, history: History) -> ScoredConfigs:
        """The configs to choose from after these measurements, with their scores."""
        if self._scored is None or not self._scored.history.agrees(history):
            predictor = self._predictor(history)
            drawn = self._promising(history)
            fastest = np.argsort(history.latencies, kind="stable")[:_FASTEST]
            parents = [history.measured[i] for i in fastest]
            near = neighbourhood(self.space, parents, _NEIGHBOURS, self.rng(1, len(history.measured)))
            drawn = drawn if near is None else drawn.with_others(near)
            prediction = predictor.predict(drawn.features)
            self._scored = ScoredConfigs(history, predictor, drawn, prediction.score, prediction.latency_s)
        return self._scored

    def _promising(self, history: History) -> DrawnConfigs:
        """The last screening: it is made with the measurements of a multiple of ``_RESCREEN_EVERY``."""
        count = len(history.measured) // _RESCREEN_EVERY * _RESCREEN_EVERY
        known = history.first(count)
        if self._screened is None or not self._screened[0].agrees(known):
            drawn = screen(self.space, self._predictor(known), self.screened, self.rng(2, count))
            self._screened = known, drawn
        return self._screened[1]

    def _predictor(self, history: History) -> Predictor:
        if not history.measured:
            return self.model
        return self.model.propose(self.space.features(history.measured), history.latencies)

    def _best_first(self, scored: ScoredConfigs, history: History, number: int) -> Iterator[int]:
        """Rows to propose, in order."""
        untried = scored.untried(history.tried | self._skipped)
        explores = self.explore_every > 0 and (len(history.tried) + 1) % self.explore_every == 0
        if history.pending and not explores:
            yield from self._batch(scored, history, untried)
        elif len(history.tried) % 2 and not explores:
            yield from _most_improving(scored, untried)
        scores = scored.score[untried]
        tried = self.space.features([*history.measured, *history.pending])
        while untried.size:
            qualified = untried[scores >= np.quantile(scores, 0.75 if explores else 1.0)]
            novelty = _novelty(scored.drawn.features, qualified, tried)
            row = int(self.rng(3, number).choice(qualified[novelty == novelty.max()]))
            yield row
            untried, scores = untried[untried != row], scores[untried != row]

    def _batch(self, scored: ScoredConfigs, history: History, untried: NDArray[np.intp]) -> Iterator[int]:
        """Rows that go well with what is pending; chosen together once, and again if more is asked for."""
        left = set(untried.tolist())
        if not any(row in left for row in scored.batch):
            scored.batch = self._choose_batch(scored, history, untried)
        for row in scored.batch:
            if row in left:
                yield row

    def _choose_batch(self, scored: ScoredConfigs, history: History, untried: NDArray[np.intp]) -> list[int]:
        pending = self.space.features(history.pending)
        believed = np.exp(-scored.predictor.predict(pending).score)
        features = pending
        if history.measured:
            features = np.vstack([self.space.features(history.measured), pending])
        latencies = np.concatenate([history.latencies, believed])
        predictor = self.model.propose(features, latencies)
        best_s = float(latencies.min())
        chosen = shortlist(
            predictor,
            scored.drawn.features[untried],
            _AT_ONCE,
            best_s=best_s if np.isfinite(best_s) else None,
            seed=self.seed,
        )
        return [int(row) for row in untried[chosen]]

    def _valid(
        self, scored: ScoredConfigs, rows: Iterator[int] | NDArray[np.intp], tried: frozenset[str]
    ) -> Iterator[tuple[int, Candidate]]:
        """Those of these rows that are valid and stand for no config that was tried."""
        for row in rows:
            candidate = self._new_candidate(scored.drawn.configs[int(row)], tried)
            if candidate is not None:
                yield int(row), candidate

    def _new_candidate(self, config: Config, tried: frozenset[str]) -> Candidate | None:
        """The candidate of a config; None where it is invalid, or it or what it stands for was tried.

        What is lowered for nothing is remembered, and passed over from then on.
        """
        if config.config_id in tried or config.config_id in self._skipped:
            return None
        with suppress(InvalidConfigError):
            candidate = self.space.candidate(config)
            if candidate.config.config_id not in tried:
                return candidate
        self._skipped.add(config.config_id)
        return None

    def _any_left(self, history: History, number: int) -> Config:
        """A config of the space beyond those that were screened.

        Raises:
            CostModelError: None is left.
        """
        for attempt in range(_LAST_DRAWS):
            for config in self.space.draw(self.screened, self.rng(4, number, attempt)).configs:
                candidate = self._new_candidate(config, history.tried)
                if candidate is not None:
                    return candidate.config
        raise self.nothing_left()

    def _remember(self, study: Study, trial: FrozenTrial, scored: ScoredConfigs, row: int) -> None:
        """Keep what was predicted for the proposal with its trial."""
        rank = 1 + int((scored.score > scored.score[row]).sum())
        write_attr(study, trial, PREDICTED_RANK, rank)
        if scored.latency_s is not None:
            write_attr(study, trial, PREDICTED_LATENCY, float(scored.latency_s[row]))


def _most_improving(scored: ScoredConfigs, untried: NDArray[np.intp]) -> NDArray[np.intp]:
    """Those of these rows of which an improvement is expected, the largest first."""
    improvement = scored.improvement[untried]
    best_first = np.argsort(-improvement, kind="stable")
    return untried[best_first[improvement[best_first] > 0.0]]


def _from_nothing(space: SearchSpace, rng: np.random.Generator) -> FromScratch:
    """A model that knows the scale of the features, and what it will be told."""
    features = space.draw(1000, rng).features
    unknown = np.full(len(features), np.nan)
    return FromScratch().fit(features, unknown, unknown)


def _novelty(features: FloatArray, qualified: NDArray[np.intp], tried: FloatArray) -> FloatArray:
    """Squared distance of each qualified row to the nearest tried one, over standardised features.

    Zero for all when nothing was tried.
    """
    if not len(tried):
        return np.zeros(qualified.size)
    scaler = Scaler().fit(features)
    scaled = scaler.transform(features[qualified])
    distances = [np.square(scaled - row).sum(axis=1) for row in scaler.transform(tried)]
    return np.asarray(np.min(distances, axis=0))
