"""The sampler that asks a transfer model first and the device last."""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from optuna import Study
from optuna.trial import FrozenTrial

from costmodel.learners import FloatArray, Prediction, Scaler
from costmodel.records import Candidate
from costmodel.search._base import PoolSampler
from costmodel.search._pool import Pool
from costmodel.transfer import TransferModel

PREDICTED_LATENCY = "costmodel:predicted_latency_s"
PREDICTED_RANK = "costmodel:predicted_rank"


class ShortlistSampler(PoolSampler):
    """Proposes what a transfer model predicts to be fastest, and learns from every trial told.

    The model scores the whole pool: zero-shot at first, adapted to all told trials from the first one on.
    Most proposals exploit: the best score. Each ``explore_every``-th explores: any score in the best quarter
    of what is left. Among those that qualify, the one farthest in feature space from everything tried is
    proposed. That breaks the ties of tree models, and a model that knows nothing yet (all scores equal) fills
    the space.

    Predicted latency and rank of each proposal are kept as system attributes of its trial.

    Args:
        pool: The candidates.
        model: A fitted transfer model; it stays as it is.
        knowledge: What the model is and what it learned from, such as its name and the dataset's hash.
        explore_every: Every how many proposals one explores; 0 for never. On landscapes 8 found the best as
            fast as 0, and 4 a little later; exploring is there for the model that is wrong.
        seed: Seed of all random choices.

    Example:
        >>> sampler = ShortlistSampler(pool, model)  # doctest: +SKIP
        >>> study = optuna.create_study(sampler=sampler)  # doctest: +SKIP
        >>> study.optimize(lambda trial: latency_s(pool.suggest(trial)), n_trials=16)  # doctest: +SKIP
    """

    def __init__(
        self,
        pool: Pool,
        model: TransferModel,
        *,
        knowledge: Mapping[str, str] | None = None,
        explore_every: int = 8,
        seed: int | None = 0,
    ) -> None:
        super().__init__(pool, seed=seed)
        self.knowledge = {"sampler": type(self).__name__, "model": type(model).__name__, **(knowledge or {})}
        self.model = model
        self.explore_every = explore_every

    def predict(self, study: Study) -> Prediction:
        """Prediction for the whole pool, from all that was measured; the best score is to be tried next."""
        positions, latencies = self.measured(study)
        features = self.pool.features
        if positions.size == 0:
            return self.model.predict(features)
        return self.model.propose(features[positions], latencies).predict(features)

    def upcoming(self, study: Study, count: int) -> list[Candidate]:
        """The untried candidates with the best scores."""
        untried = self.untried(study)
        best_first = untried[np.argsort(-self.predict(study).score[untried], kind="stable")]
        return [self.pool.candidates[i] for i in best_first[:count]]

    def choose(self, study: Study, trial: FrozenTrial, untried: NDArray[np.intp]) -> int:
        """The most novel of the candidates whose score qualifies."""
        prediction = self.predict(study)
        tried = np.setdiff1d(np.arange(len(self.pool)), untried)
        explores = self.explore_every > 0 and (tried.size + 1) % self.explore_every == 0
        scores = prediction.score[untried]
        qualified = untried[scores >= np.quantile(scores, 0.75 if explores else 1.0)]
        novelty = _novelty(self.pool.features, qualified, tried)
        chosen = int(self._rng.choice(qualified[novelty == novelty.max()]))
        _remember(study, trial, prediction, chosen)
        return chosen


def _novelty(features: FloatArray, qualified: NDArray[np.intp], tried: NDArray[np.intp]) -> FloatArray:
    """Squared distance of each qualified row to the nearest tried one, over standardised features.

    Zero for all when nothing was tried.
    """
    scaled = Scaler().fit(features).transform(features)
    distances = [np.square(scaled[qualified] - scaled[row]).sum(axis=1) for row in tried]
    return np.min(distances, axis=0) if distances else np.zeros(qualified.size)


def _remember(study: Study, trial: FrozenTrial, prediction: Prediction, chosen: int) -> None:
    """Keep what was predicted for the proposal with its trial, as Optuna's own samplers keep their state."""
    rank = 1 + int((prediction.score > prediction.score[chosen]).sum())
    study._storage.set_trial_system_attr(trial._trial_id, PREDICTED_RANK, rank)
    if prediction.latency_s is not None:
        latency_s = float(prediction.latency_s[chosen])
        study._storage.set_trial_system_attr(trial._trial_id, PREDICTED_LATENCY, latency_s)
