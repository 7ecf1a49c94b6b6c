"""The sampler for several SM budgets: each trial is one kernel, measured on all of them."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.trial import FrozenTrial

from costmodel.arrays import FloatArray
from costmodel.records import Candidate, Config
from costmodel.search._objective import Objective
from costmodel.search.samplers._budgets_prediction import BudgetsKnowledge, BudgetsPredictor, SearchGoal
from costmodel.search.samplers._history import FINISHED, History, chosen_params
from costmodel.search.samplers._model import PREDICTED_LATENCY, ModelSampler, ScoredConfigs
from costmodel.search.samplers._turns import write_attr
from costmodel.spaces import BudgetsSpace
from costmodel.transfer import TransferModel

# User attribute of a trial: seconds on each budget, in the order of the space's platforms; null for a
# failure.
LATENCIES = "latency_s"
# Kernels whose predicted best is what a budget is taken to allow before better is measured.
_REFERENCE_DRAWS = 2_000


class BudgetsSampler(ModelSampler):
    """Proposes kernels that are predicted to be good on several SM budgets together.

    A ``ModelSampler`` whose model adapts to each budget by what was measured there, and whose score is that
    of ``BudgetsPredictor``: for one kernel, the objective; for a portfolio, the largest expected improvement
    at any budget. Each trial must carry its latencies in the user attribute ``latency_s``, as
    ``tune_budgets`` writes them.

    **Value of a trial.** What is best depends on what else was measured, but a value must not drift. So
    ``value`` is relative to a reference that is fixed at the start: the best latency that the model predicts
    on each budget before any measurement, or 1 s over the SMs where it predicts none.

    Args:
        space: The configs on all budgets.
        objective: How budgets combine.
        goal: One kernel for all budgets, or kernels of a portfolio.
        model: As for ``ModelSampler``.
        knowledge: As for ``ModelSampler``.
        screened: Configs drawn for each screening; each is scored once a budget.
        explore_every: As for ``ModelSampler``.
        seed: Seed of all random choices.

    Raises:
        ValueError: The objective is for another number of budgets.
    """

    space: BudgetsSpace

    def __init__(  # noqa: PLR0913 (settings, all but three with defaults)
        self,
        space: BudgetsSpace,
        objective: Objective,
        goal: SearchGoal = SearchGoal.ONE_KERNEL,
        model: TransferModel | None = None,
        *,
        knowledge: Mapping[str, str] | None = None,
        screened: int = 8_000,
        explore_every: int = 8,
        seed: int | None = 0,
    ) -> None:
        if len(objective.weights) != len(space.platforms):
            raise ValueError(
                "objective must be for as many SM budgets as the space has, "
                f"but got {len(objective.weights)} and {len(space.platforms)}"
            )
        super().__init__(
            space.spaces[0],
            model,
            knowledge={"objective": objective.name.value, "goal": goal.value, **(knowledge or {})},
            screened=screened,
            explore_every=explore_every,
            seed=seed,
        )
        self.space = space
        reference = space.draw(_REFERENCE_DRAWS, self.rng(5)).features
        self.known = BudgetsKnowledge(self.model, objective, goal, reference)
        self._latencies: dict[str, FloatArray] = {}

    @property
    def reference_s(self) -> FloatArray:
        """``(b,)`` seconds that the values of trials are relative to."""
        sms = np.array([platform.sms_granted for platform in self.space.platforms], dtype=np.float64)
        predicted = self.known.reference_s()
        return 1.0 / sms if predicted is None else predicted

    def value(self, latency_s: FloatArray, reference_s: FloatArray) -> float:
        """What a study minimises: a natural log of latency over the reference.

        That of the objective for one kernel, inf if it fails on a budget. Of a portfolio a kernel need not be
        good everywhere: the smallest of the budgets.
        """
        log_ratio = np.log(latency_s / reference_s)
        if self.known.goal is SearchGoal.PORTFOLIO:
            return float(log_ratio.min())
        return float(self.known.objective.combine(log_ratio))

    def likely_next(self, study: Study, count: int) -> list[Candidate]:
        """The untried candidates with the best scores."""
        self._read(study)
        return super().likely_next(study, count)

    def scored(self, study: Study) -> ScoredConfigs:
        """What would be chosen from now, with its scores."""
        self._read(study)
        return super().scored(study)

    def choose(self, study: Study, trial: FrozenTrial, history: History) -> Config:
        """The config to measure next; its predictions are kept with the trial."""
        self._read(study)
        return super().choose(study, trial, history)

    def _read(self, study: Study) -> None:
        """Learn the latencies of the trials that were told since."""
        for trial in study.get_trials(deepcopy=False, states=FINISHED):
            if params := chosen_params(trial):
                self._latencies[self.space.config(params).config_id] = latencies_of(
                    trial, len(self.space.platforms)
                )

    def _predictor(self, history: History) -> BudgetsPredictor:
        if not history.measured:
            return self.known.zero_shot()
        return self.known.adapted(self.space.features(history.measured), self._measured(history.measured))

    def _choose_batch(self, scored: ScoredConfigs, history: History, untried: NDArray[np.intp]) -> list[int]:
        """The row to propose next, where what is pending is believed to be as fast as predicted."""
        assert isinstance(scored.predictor, BudgetsPredictor)
        pending = self.space.features(history.pending)
        X, latency_s = pending, np.exp(scored.predictor.log_latency(pending))
        if history.measured:
            X = np.vstack([self.space.features(history.measured), X])
            latency_s = np.vstack([self._measured(history.measured), latency_s])
        score = self.known.adapted(X, latency_s).predict(scored.drawn.features[untried]).score
        return [int(untried[score.argmax()])] if untried.size else []

    def _measured(self, configs: Sequence[Config]) -> FloatArray:
        """``(m, b)`` seconds of measured configs."""
        return np.array([self._latencies[config.config_id] for config in configs])

    def _remember(self, study: Study, trial: FrozenTrial, scored: ScoredConfigs, row: int) -> None:
        """Keep what was predicted on each budget with the trial."""
        super()._remember(study, trial, scored, row)
        assert isinstance(scored.predictor, BudgetsPredictor)
        told = scored.predictor.at_budgets(scored.drawn.features[[row]])
        if all(prediction.latency_s is not None for prediction in told):
            latencies = [float(p.latency_s[0]) for p in told if p.latency_s is not None]
            write_attr(study, trial, PREDICTED_LATENCY, latencies)


def latencies_of(trial: FrozenTrial, budgets: int) -> FloatArray:
    """``(b,)`` seconds that a trial was told; inf for a failure, NaN where nothing is known."""
    told = trial.user_attrs.get(LATENCIES)
    if told is None:
        return np.full(budgets, np.nan)
    return np.array([np.inf if latency is None else latency for latency in told], dtype=np.float64)
