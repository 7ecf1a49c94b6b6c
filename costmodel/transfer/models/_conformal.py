"""Calibrated intervals around the latency that a model predicts."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, positions
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._ridge import RidgeLearner
from costmodel.learners._stored_state import StoredState
from costmodel.transfer._base import Predictor, StorableModel
from costmodel.transfer.models._familiarity import Codes, Familiarity, group_folds, twin_codes
from costmodel.transfer.models._quantiles import MondrianQuantiles, Rehearsed, ShotQuantiles, rehearse, std_of
from costmodel.transfer.models._unseen_devices import UnseenDevices

# Residuals below 3 % are noise: the learned std must not promise less.
_LEAST_RESIDUAL = 0.03

# Of the ridge regression of the std. On workloads of an H100 campaign held out, penalties of 0.1, 1 and 10
# gave mean widths of 1.68, 1.62 and 1.64 (natural log, high / low) against 1.72 without a learned std.
_STD_PENALTY = 0.3

# The std costs little to learn, on rows of which those of a group say nearly the same. That its folds are
# almost as large as the whole matters: a std learned from fewer groups is wrong more often, and quantiles
# in its units become too wide for the final one.
_STD_FOLDS = 20
_STD_ROWS = 30_000
# Configs of a task above which it is large: after the sixteen measurements of a usual search most are left.
_LARGE = 32


@register()
class Conformal(StorableModel):
    """Add intervals around predicted latencies, and a measure of unfamiliarity, to a transfer model.

    ``fit`` leaves groups of rows out in folds and looks at the residuals ``log(measured / predicted)`` of
    those that ran. A ridge regression of log |residual| on the features learns where the model errs more;
    residuals in units of that std have quantiles by bucket (``MondrianQuantiles``), and the interval is
    ``predicted * exp(std * quantiles)``: split conformal prediction with normalised residuals (Lei et al.,
    JASA 113, 2018, section 5.2), cross-fitted (Vovk, "Cross-conformal predictors", 2015), its two ends
    calibrated apart as by Romano, Patterson and Candes (NeurIPS 2019). It holds on average over rows of new
    groups like the known ones; a single group may have more or less.

    After ``adapt`` the std is that of the Gaussian process, where the model has one, and its quantiles are
    those of adaptations that ``fit`` rehearsed on the groups left out, by number of measurements. They hold
    for measurements that the model chose by score.

    On an unseen device, ``UnseenDevices`` gives the ends, from held-out architectures. If all devices have
    one architecture, the right width is unknown, and ``promises`` is false.

    Scores and latencies are the model's own.

    Args:
        model: The model; ``Residual(learner)`` for a learner.
        group_columns: Positions of the columns of what will be new, such as those of the workload.
        bucket_columns: Positions of the columns by which the intervals must hold, such as those of the
            platform.
        device_columns: See ``UnseenDevices``; with none, no device counts as unseen.
        architecture_columns: See ``UnseenDevices``.
        level: Share of measured latencies within their interval.
        folds: Number of folds; each costs a fit. With 5 instead of 10, models learn from a tenth of the
            groups less, and their larger residuals cover 0.5% more than the level.
        rows: Rows that a fold's model learns from; as many are drawn if there are more.
        rehearsals: Tasks to rehearse adaptation on.
        large_rehearsals: Further tasks to rehearse it on, of those with more than 32 configs: in a task of
            few, what measurements leave over was ranked last, and of many, intervals become too narrow.
        seed: Seed of folds and rehearsals.

    Raises:
        ValueError: In ``fit``: there is one group only.
    """

    def __init__(  # noqa: PLR0913 (settings, most with defaults)
        self,
        model: StorableModel,
        group_columns: tuple[int, ...],
        bucket_columns: tuple[int, ...] = (),
        device_columns: tuple[int, ...] = (),
        architecture_columns: tuple[int, ...] = (),
        *,
        level: float = 0.9,
        folds: int = 10,
        rows: int = 60_000,
        rehearsals: int = 240,
        large_rehearsals: int = 0,
        seed: int = 0,
    ) -> None:
        self.model = model
        self.group_columns = group_columns
        self.bucket_columns = bucket_columns
        self.device_columns = device_columns
        self.architecture_columns = architecture_columns
        self.level = level
        self.folds = folds
        self.rows = rows
        self.rehearsals = rehearsals
        self.large_rehearsals = large_rehearsals
        self.seed = seed

    @classmethod
    def around(cls, model: StorableModel, columns: Sequence[Column], seed: int) -> Self:
        """Around a model for feature tables with these columns; families of one workload stay together."""
        buckets = positions(columns, tags=("interval",))
        return cls(
            model,
            tuple(at for at in positions(columns, "workload") if at not in buckets),
            buckets,
            positions(columns, tags=("device", "architecture")),
            positions(columns, tags=("architecture",)),
            seed=seed,
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Fit the model, and its intervals by cross-fitting."""
        order = np.lexsort([y, *X.T[::-1], task_ids])  # what is learned does not depend on the order given
        X, y, task_ids = X[order], y[order], task_ids[order]
        groups = twin_codes(X, self.group_columns, task_ids)
        folds = group_folds(groups, self.folds, self.seed)
        residual, rehearsed = self._cross_fit(X, y, task_ids, folds)
        self.shots_ = ShotQuantiles(level=self.level).fit(rehearsed)
        judged = np.isfinite(residual)
        self.knows_latency_ = bool(judged.any())
        if self.knows_latency_:
            self._fit_zero_shot(X[judged], residual[judged], groups[judged])
        self.familiarity_ = Familiarity(seed=self.seed).fit(X, groups)
        drawn = np.sort(np.random.default_rng(self.seed).permutation(len(X))[: self.rows])
        self.unseen_ = self._unseen_devices().fit(self.model, X[drawn], y[drawn], task_ids[drawn])
        self.model.fit(X, y, task_ids)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """The model's prediction and, where it knows latency, the interval."""
        prediction = self.model.predict(X)
        if prediction.latency_s is None or not self.knows_latency_:
            return prediction
        std, quantiles = _std(self.std_, X), self.mondrian_.quantiles(X)
        if self.unseen_.quantiles_ is not None:
            unseen = self.unseen_.are_of(X)
            std[unseen], quantiles[unseen] = 1.0, self.unseen_.quantiles_
        return with_interval(prediction, std, quantiles)

    def promises(self, X: FloatArray) -> NDArray[np.bool_]:
        """``(n,)`` whether intervals hold for a row: not on unseen devices, if one architecture is known."""
        return np.asarray(~self.unseen_.are_of(X) | (self.unseen_.quantiles_ is not None))

    def adapt(self, X: FloatArray, y: FloatArray) -> "AdaptedInterval":
        """The model's adaptation, with intervals for as many measurements as ran."""
        return self._with_intervals(self.model.adapt(X, y), y)

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        """The model's proposals: what is measured next is chosen by its posterior, and needs no interval."""
        return self.model.propose(X, y)

    def unfamiliarity(self, X: FloatArray) -> FloatArray:
        """``(n,)`` how unlike all that was learned from; above 1 the intervals promise nothing."""
        return self.familiarity_.unfamiliarity(X)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        state = {
            "model": self.model.state(),
            "familiarity": self.familiarity_.state(),
            "shots": self.shots_.state(),
            "unseen": self.unseen_.state(),
        }
        if self.knows_latency_:
            state |= {"mondrian": self.mondrian_.state(), "std": self.std_.state()}
        return state

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.model.load_state(stored.part("model"))
        self.familiarity_ = Familiarity(seed=self.seed).load_state(stored.part("familiarity"))
        self.shots_ = ShotQuantiles(level=self.level).load_state(stored.part("shots"))
        self.unseen_ = self._unseen_devices().load_state(stored.part("unseen"))
        self.knows_latency_ = "mondrian" in stored
        if self.knows_latency_:
            self.mondrian_ = MondrianQuantiles(self.bucket_columns, level=self.level)
            self.mondrian_.load_state(stored.part("mondrian"))
            self.std_ = RidgeLearner(alpha=_STD_PENALTY).load_state(stored.part("std"))
        return self

    def _unseen_devices(self) -> UnseenDevices:
        return UnseenDevices(self.device_columns, self.architecture_columns, level=self.level)

    def _with_intervals(self, predictor: Predictor, y: FloatArray) -> "AdaptedInterval":
        ran = max(1, int(np.isfinite(y).sum()))
        return AdaptedInterval(predictor, self.shots_.at(ran))

    def _cross_fit(
        self, X: FloatArray, y: FloatArray, task_ids: TaskIds, folds: Codes
    ) -> tuple[FloatArray, list[Rehearsed]]:
        """``(n,)`` residuals of the rows left out, not finite for failures, and rehearsals on their tasks."""
        drawn = self._tasks_to_rehearse(task_ids)
        residual = np.full(len(y), np.nan)
        rehearsed: list[Rehearsed] = []
        for fold in np.unique(folds):
            out = folds == fold
            # By a generator of its own: what is rehearsed does not depend on how many rows there are.
            known = np.random.default_rng(self.seed).permutation(np.flatnonzero(~out))[: self.rows]
            if not np.isfinite(y[known]).any():
                continue
            self.model.fit(X[known], y[known], task_ids[known])
            predicted = self.model.predict(X[out]).latency_s
            if predicted is not None:
                residual[out] = np.log(y[out] / predicted)
            for tasks in drawn:
                at = out & np.isin(task_ids, tasks)
                rehearsed += rehearse(self.model, X[at], y[at], task_ids[at])
        return residual, rehearsed

    def _tasks_to_rehearse(self, task_ids: TaskIds) -> tuple[TaskIds, TaskIds]:
        """Tasks at random, and large ones at random; a task of both is rehearsed, and counts, twice."""
        names, sizes = np.unique(task_ids, return_counts=True)
        some = np.random.default_rng(self.seed).permutation(names)[: self.rehearsals]
        large = np.random.default_rng(self.seed).permutation(names[sizes > _LARGE])[: self.large_rehearsals]
        return some, large

    def _fit_zero_shot(self, X: FloatArray, residual: FloatArray, groups: Codes) -> None:
        std = np.ones(len(X))
        drawn = np.zeros(len(X), dtype=np.bool_)
        drawn[np.random.default_rng(self.seed).permutation(len(X))[:_STD_ROWS]] = True
        if len(np.unique(groups)) > 1:
            folds = group_folds(groups, _STD_FOLDS, self.seed)
            for out in (folds == fold for fold in np.unique(folds)):
                known = drawn & ~out
                std[out] = _std(_learn_std(X[known], residual[known]), X[out])
        self.std_ = _learn_std(X[drawn], residual[drawn])
        self.mondrian_ = MondrianQuantiles(self.bucket_columns, level=self.level)
        self.mondrian_.fit(X, residual / std, groups)


class AdaptedInterval:
    """A predictor of one task, with intervals.

    Args:
        predictor: The predictor.
        quantiles: Lower and upper quantile of log(measured / predicted) in stds; None for no interval.
    """

    def __init__(self, predictor: Predictor, quantiles: FloatArray | None) -> None:
        self.predictor = predictor
        self.quantiles = quantiles

    def predict(self, X: FloatArray) -> Prediction:
        """The predictor's prediction and, where it knows latency, the interval."""
        prediction = self.predictor.predict(X)
        if prediction.latency_s is None or self.quantiles is None:
            return prediction
        return with_interval(prediction, std_of(self.predictor, X), self.quantiles[None])

    def std(self, X: FloatArray) -> FloatArray:
        """``(n,)`` std of the predictor, 1 where it tells none."""
        return std_of(self.predictor, X)


def with_interval(prediction: Prediction, std: FloatArray, quantiles: FloatArray) -> Prediction:
    """A prediction with the interval ``latency * exp(std * quantiles)``, which holds the latency itself.

    Args:
        prediction: With a latency.
        std: ``(n,)`` standard deviations of log latency.
        quantiles: ``(n, 2)`` or ``(1, 2)`` quantiles in units of the std.
    """
    assert prediction.latency_s is not None
    low, high = np.exp(std * np.minimum(quantiles[:, 0], 0.0)), np.exp(std * quantiles[:, 1].clip(0.0))
    latency_s = prediction.latency_s
    return Prediction(prediction.score, latency_s, latency_s * low, latency_s * high)


def _learn_std(X: FloatArray, residual: FloatArray) -> RidgeLearner:
    return RidgeLearner(alpha=_STD_PENALTY).fit(X, np.abs(residual) + _LEAST_RESIDUAL, np.zeros(len(X)))


def _std(learned: RidgeLearner, X: FloatArray) -> FloatArray:
    std = learned.predict(X).latency_s
    assert std is not None
    return std
