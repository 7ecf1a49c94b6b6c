"""The sampler that proposes configs by a transfer model."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property

import numpy as np
from optuna import Study
from optuna.trial import FrozenTrial

from costmodel.arguments import check_whole
from costmodel.arrays import FloatArray, Positions
from costmodel.errors import CostModelError, InvalidConfigError
from costmodel.records._candidate import Candidate, Config
from costmodel.search._objective import Objective, SearchGoal
from costmodel.search.samplers._base import SpaceSampler
from costmodel.search.samplers._from_nothing import FromNothing
from costmodel.search.samplers._history import History
from costmodel.search.samplers._prediction import JointPredictor, SearchPrior
from costmodel.search.samplers._screening import ScoredConfigs, look_around, neighbourhood, screen
from costmodel.search.samplers._turns import write_attr
from costmodel.search.spaces._base import DrawnConfigs, SearchSpace
from costmodel.transfer._base import TransferModel
from costmodel.transfer.prediction._model import Model

# System attributes of a trial: seconds predicted at each SM budget, and the rank of its score.
PREDICTED_LATENCY = "costmodel:predicted_latency_s"
PREDICTED_RANK = "costmodel:predicted_rank"
# System attribute of a trial: configs with the score of the chosen one, if several; it is chosen at random.
TIED = "costmodel:tied"

# After every so many measurements the space is drawn anew and screened with what was learned.
RESCREEN_EVERY = 16
# Neighbours of so many of the fastest that were measured are looked at each time, so many of each.
_FASTEST, _NEIGHBOURS = 4, 32
# Choices made at once where several are pending: a batch takes them one by one while nothing new is learned.
_AT_ONCE = 64
# Log of the probability to keep all constraints that a batch asks for, where some configs have it.
_LIKELY = np.log(0.5)
# Kernels whose predicted best is what an SM budget is taken to allow before better is measured.
_REFERENCE_DRAWS = 2_000
# Configs that show the scale of the features to a search that knows nothing.
_SCALE_DRAWS = 1000
# Trials with which a search that knows nothing fills the space, and configs that each is the best of, for
# each that was tried.
_FILLING, _FILLED_FROM = 6, 4
# Configs that such a search draws for each proposal, to climb from the best of them.
_LOOKED_AT = 1000
# Finished trials that are learned from: an ask after 5,000 takes under a second.
_MOST_LEARNED = 500
# Draws of a large space that are all invalid or tried until nothing counts as left.
_LAST_DRAWS = 4


class ModelSampler(SpaceSampler):
    """Optuna sampler that proposes the configs a transfer model predicts to be fastest.

    The model learns from every finished trial.

    **Screening.** The model scores tens of thousands of configs of the space (all configs of a small one) by
    their features, without building any, and keeps the best two thousand and similar ones. After every 16
    measurements, the space is drawn anew and screened with the adapted model. In between, neighbours of the
    fastest measured configs are added.

    **Nothing known.** Without a model, the search first fills the space with six configs. Then a Gaussian
    process learns from the trials which features matter and how, and each proposal is the config with the
    largest expected improvement that is found by drawing and climbing; all configs of a small space are
    compared. At several SM budgets, proposals are chosen as with a model.

    **Choice.** With a model, most proposals exploit: they have the best score or, in alternation if the
    adapted model estimates its uncertainty, the largest expected improvement. Every ``explore_every``-th
    proposal explores: any score in the best quarter of the untried configs qualifies. Of the configs that
    qualify, the one farthest in feature space from all tried configs is proposed. This breaks the ties of
    tree models.

    **Several SM budgets.** The model adapts to each budget by the measurements at that budget. One kernel for
    all budgets is scored by the objective; a kernel of a portfolio, by its largest expected improvement at
    any budget (see ``JointPredictor``).

    **Batches.** Pending trials, of other workers or of this one, are assumed to be as fast as predicted. The
    next configs are chosen together so that one of them is expected to be fast (see
    ``costmodel.transfer.shortlist``); near-copies of pending configs add little to that.

    **Failures.** A config from which no kernel can be made (``InvalidConfigError``) is skipped and costs no
    trial. The model learns from a failed trial as an infinite latency.

    **Constraints.** What a trial was told by Optuna's ``trial.set_constraint`` is learned, too: what is
    expected of a config counts as much as it is likely to keep all constraints, and the best so far is the
    best that kept them.

    **Many trials.** Of more than 500 finished trials the model learns from 500: the fastest half, and others
    spread evenly over time. No config is proposed twice.

    The predicted latency and rank of each proposal are stored as system attributes of its trial. The same
    study and seed give the same proposals, in any process.

    Args:
        space: The space to propose configs from.
        model: A model fitted to the space's features; it is not modified. Default: start from nothing.
        objective: How several SM budgets combine. Default: the worst regret.
        goal: Whether to search for one kernel for all SM budgets or for the kernels of a portfolio.
        knowledge: Description of the model and its training data, such as its name and the dataset's hash,
            for the provenance.
        screened: Number of configs scored in each screening; a search without a model draws up to 1,000 for
            each proposal. With several SM budgets, fewer configs are drawn, as each is scored at every
            budget.
        explore_every: Interval between exploring proposals of a search with a model; 0 for none. On
            landscapes, 8 found the best as fast as 0, and 4 found it a little later. Exploration is meant
            for models that are wrong.
        seed: Seed of all random choices.

    Example:
        >>> sampler = ModelSampler(space, model)  # doctest: +SKIP
        >>> study = optuna.create_study(sampler=sampler)  # doctest: +SKIP
        >>> study.optimize(lambda trial: latency_s(space.suggest(trial)), n_trials=16)  # doctest: +SKIP
    """

    def __init__(  # noqa: PLR0913 (settings, all but the first with defaults)
        self,
        space: SearchSpace,
        model: Model | TransferModel | None = None,
        *,
        objective: Objective | None = None,
        goal: SearchGoal = SearchGoal.ONE_KERNEL,
        knowledge: Mapping[str, str] | None = None,
        screened: int = 50_000,
        explore_every: int = 8,
        seed: int | None = 0,
    ) -> None:
        super().__init__(space, objective=objective, goal=goal, seed=seed)
        check_whole("screened", screened, 1)
        check_whole("explore_every", explore_every)
        known = _fitting(model, space) if isinstance(model, Model) else model
        self.model = known or FromNothing(space.draw(_SCALE_DRAWS, self.rng(0)).features[:, 0])
        self._unaided = isinstance(self.model, FromNothing)
        self.knowledge = {
            "sampler": type(self).__name__,
            "model": type(self.model).__name__,
            **_purpose(self.objective, goal),
            **(knowledge or {}),
        }
        drawn = min(screened, _LOOKED_AT) if self._unaided else screened
        self.screened = max(1, drawn // len(space.platforms))
        self.explore_every = explore_every
        self._skipped: set[str] = set()
        self._prior = SearchPrior(self.model, self.objective, goal, lambda: self._reference)
        self._screened: tuple[History, DrawnConfigs] | None = None
        self._listed: DrawnConfigs | None = None
        self._scored: ScoredConfigs | None = None

    @property
    def reference_s(self) -> FloatArray:
        """``(b,)`` reference latencies in seconds: the best that the model predicts at the start."""
        predicted = self._prior.best_s()
        return super().reference_s if predicted is None else predicted

    def scored(self, study: Study) -> ScoredConfigs:
        """Return the configs to choose from with their scores; cached until something new is measured."""
        with self._lock:
            return self._scored_after(History.of(study, self.space))

    def expected_gain(self, study: Study) -> float | None:
        """Return the expected gain of the next measurement, as a share of the best latency, at most 1.

        None if nothing ran yet, or if there is no joint posterior, as for several SM budgets.
        """
        scored = self.scored(study)
        if scored.predictor.posterior is None:
            return None
        untried = scored.untried(scored.history.tried | self._skipped)
        return float(1.0 - np.exp(-scored.improvement[untried].max(initial=0.0)))

    def best_first(self, configs: Sequence[Config]) -> list[Config]:
        """Return configs of the space in the order of their scores before anything is measured."""
        if not configs:
            return []
        score = self._prior.zero_shot().predict(self.space.features(configs)).score
        return [configs[int(i)] for i in np.argsort(-score, kind="stable")]

    def shortlist(self, count: int, history: History | None = None) -> list[Candidate]:
        """Return candidates to look at more closely before any of them is measured.

        They are chosen together, as a batch is: the best ones of a large space are near-copies.

        Args:
            count: Number of candidates; fewer are returned if the space has no more valid ones.
            history: What was measured so far. Default: nothing.
        """
        history = history or History.nothing(len(self.space.platforms))
        scored = self._scored_after(history)
        first, others = np.split(scored.untried(history.tried), [1])
        hoped = replace(history, pending=tuple(scored.drawn.configs[int(row)] for row in first))
        together = self._choose_batch(scored, hoped, others, count)
        left = others[~np.isin(others, together)]
        found: dict[str, Candidate] = {}
        for _, candidate in self._valid(scored, [*first, *together, *left], history.tried):
            found.setdefault(candidate.candidate_id, candidate)
            if len(found) == count:
                break
        return list(found.values())

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """Choose the config to measure next, and store its prediction with the trial."""
        scored = self._scored_after(history)
        rows = self._best_first(scored, history)
        for row, candidate in self._valid(scored, rows, history.tried):
            self._remember(study, trial, scored, row)
            return candidate.config
        return self._any_left(history)

    @cached_property
    def _reference(self) -> FloatArray:
        """``(n, b, d)`` features of kernels that could be chosen; drawn where asked for, as some are slow."""
        return self.space.draw(_REFERENCE_DRAWS, self.rng(5)).features

    def _scored_after(self, history: History) -> ScoredConfigs:
        """The configs to choose from after these measurements, with their scores."""
        if self._scored is None or not self._scored.history.agrees(history):
            predictor = self._predictor(history)
            drawn = self._around(history, predictor) if self._unaided else self._promising(history)
            prediction = predictor.predict(drawn.features)
            self._scored = ScoredConfigs(history, predictor, drawn, prediction.score, prediction.latency_s)
        return self._scored

    def _around(self, history: History, predictor: JointPredictor) -> DrawnConfigs:
        """What a search that knows nothing chooses from; all of a small space, drawn once."""
        if self._listed is not None:
            return self._listed
        rng = self.rng(2, len(history.measured))
        drawn = look_around(self.space, predictor.worth, history.fastest(_FASTEST), self.screened, rng)
        self._listed = None if self.space.size is None else drawn
        return drawn

    def _promising(self, history: History) -> DrawnConfigs:
        """The last screening and neighbours of the fastest.

        A screening is made with the measurements of a multiple of ``RESCREEN_EVERY``.
        """
        known = history.first(len(history.measured) // RESCREEN_EVERY * RESCREEN_EVERY)
        if self._screened is None or not self._screened[0].agrees(known):
            self._screened = known, self._screen(known)
        rng = self.rng(1, len(history.measured))
        near = neighbourhood(self.space, history.fastest(_FASTEST), _NEIGHBOURS, rng)
        return self._screened[1] if near is None else self._screened[1].with_others(near)

    def _screen(self, known: History) -> DrawnConfigs:
        """The most promising configs of the space after these measurements."""
        rng = self.rng(2, len(known.measured))
        return screen(self.space, self._predictor(known), self.screened, rng)

    def _predictor(self, history: History) -> JointPredictor:
        if (history.latency_s <= 0.0).any():
            raise CostModelError(
                "Trials must be told positive latencies in seconds, but got "
                f"{np.nanmin(history.latency_s):g}. Minimise what is always above 0."
            )
        known = history.essence(_MOST_LEARNED)
        return self._prior.condition_on(self.space.features(known.measured), known.latency_s, known.excess)

    def _best_first(self, scored: ScoredConfigs, history: History) -> Iterator[int]:
        """Rows to propose, in order; what is random depends on what was tried, not on trials given up."""
        untried = scored.untried(history.tried | self._skipped)
        decided = self._unaided and scored.predictor.posterior is not None
        explores = self.explore_every > 0 and (len(history.tried) + 1) % self.explore_every == 0
        if self._unaided and len(history.measured) < _FILLING:
            yield from self._filling(scored, history, untried)
        elif history.pending and (decided or not explores):
            yield from self._batch(scored, history, untried)
        elif decided or (len(history.tried) % 2 and not explores):
            yield from scored.most_improving(untried)
        scores = scored.score[untried]
        tried = self.space.features([*history.measured, *history.pending])
        while untried.size:
            qualified = untried[scores >= np.quantile(scores, 0.75 if explores else 1.0)]
            novelty = scored.novelty(qualified, tried)
            row = int(self.rng(3, len(history.tried)).choice(qualified[novelty == novelty.max()]))
            yield row
            untried, scores = untried[untried != row], scores[untried != row]

    def _filling(self, scored: ScoredConfigs, history: History, untried: Positions) -> Iterator[int]:
        """Rows that fill the space: of some at random the farthest from what was tried, then the next.

        All of them would give its corners. Source: Mitchell, "Spectrally optimal sampling for distribution
        ray tracing", SIGGRAPH 1991.
        """
        rng = self.rng(6, len(history.tried))
        tried = self.space.features([*history.measured, *history.pending])
        some = rng.permutation(untried)[: _FILLED_FROM * (1 + len(tried))]
        yield from some[np.argsort(-scored.novelty(some, tried), kind="stable")]

    def _batch(self, scored: ScoredConfigs, history: History, untried: Positions) -> Iterator[int]:
        """Rows that go well with what is pending; chosen together once, and again if more is asked for."""
        left = set(untried.tolist())
        if not any(row in left for row in scored.batch):
            scored.batch = self._choose_batch(scored, history, untried, _AT_ONCE)
        for row in scored.batch:
            if row in left:
                yield row

    def _choose_batch(
        self, scored: ScoredConfigs, history: History, untried: Positions, count: int
    ) -> list[int]:
        """Up to ``count`` rows that are best after what is pending was found to be as fast as predicted."""
        known = history.essence(_MOST_LEARNED)
        X, excess = self.space.features(history.pending), known.excess
        believed = np.exp(scored.predictor.log_latency(X))
        if known.measured:
            X = np.concatenate([self.space.features(known.measured), X])
        if excess is not None:
            excess = np.vstack([excess, np.full((len(believed), excess.shape[1]), np.nan)])
        predictor = self._prior.condition_on(X, np.concatenate([known.latency_s, believed]), excess)
        likely = predictor.log_feasible(scored.drawn.features[untried]) >= _LIKELY
        untried = untried[likely] if likely.any() else untried
        chosen = predictor.shortlist(scored.drawn.features[untried], count, self.seed)
        return [int(row) for row in untried[chosen]]

    def _valid(
        self, scored: ScoredConfigs, rows: Iterable[int], tried: frozenset[str]
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

    def _any_left(self, history: History) -> Config:
        """A config of the space beyond those that were screened.

        Raises:
            CostModelError: None is left.
        """
        for attempt in range(_LAST_DRAWS):
            for config in self.space.draw(self.screened, self.rng(4, len(history.tried), attempt)).configs:
                candidate = self._new_candidate(config, history.tried)
                if candidate is not None:
                    return candidate.config
        raise self.nothing_left()

    def _remember(self, study: Study, trial: FrozenTrial, scored: ScoredConfigs, row: int) -> None:
        """Keep what was predicted for the proposal with its trial."""
        rank = 1 + int((scored.score > scored.score[row]).sum())
        write_attr(study, trial, PREDICTED_RANK, rank)
        if (tied := int((scored.score == scored.score[row]).sum())) > 1:
            write_attr(study, trial, TIED, tied)
        if scored.latency_s is not None:
            write_attr(study, trial, PREDICTED_LATENCY, scored.latency_s[row].tolist())


def _fitting(model: Model, space: SearchSpace) -> TransferModel:
    """Return the model on arrays.

    Raises:
        CostModelError: It reads other features than the configs of the space have.
    """
    columns = model.metadata.columns
    if not columns or space.in_columns(columns) is not space:
        return model.model
    reads, has = len(columns), space.draw(1, np.random.default_rng(0)).features.shape[-1]
    if reads != has:
        raise CostModelError(
            f"A model must have learned from features of this space, of which a config has {has}, but this "
            f"one reads {reads}. Leave it out: the search then learns from its own trials."
        )
    return model.model


def _purpose(objective: Objective, goal: SearchGoal) -> dict[str, str]:
    """What kernels are chosen by, where that is not just their latency."""
    if len(objective.weights) == 1:
        return {}
    return {"objective": objective.name.value, "goal": goal.value}
