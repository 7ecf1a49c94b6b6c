"""Guarded transfer: a fallback takes over if the sources mislead."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, positions
from costmodel.learners._base import Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState
from costmodel.transfer._base import Predictor, StorableModel, TransferModel, check_measured
from costmodel.transfer._plan import rank_correlation
from costmodel.transfer.models._alone import Alone, Proposal, transfer_turns
from costmodel.transfer.models._calibrated import Mixture
from costmodel.transfer.models._familiarity import Codes, Familiarity, group_codes, group_folds
from costmodel.transfer.models._residual import FromScratch

# The best configs of 184 tasks of an H100 took 1 to 20 times their lower bound, and 4 times in the median;
# seconds, milliseconds and microseconds are 1,000 apart.
_OFF = float(np.log(100.0))


def in_common_unit(X: FloatArray, y: FloatArray, task_ids: TaskIds, column: int | None) -> NDArray[np.bool_]:
    """``(n,)`` whether each row's task may be in the unit of most tasks.

    A task is not if its best latency, relative to the lower bound of that config, is more than 100 times
    off the median of all tasks. Tasks of which the bound is unknown or nothing ran may be; and where not
    even half of the tasks agree, nobody knows the unit and all may be.

    Args:
        X: ``(n, d)`` features.
        y: ``(n,)`` latencies; inf for a config that failed.
        task_ids: ``(n,)`` task of each row.
        column: Position of the column with log2 of a lower bound in seconds; None if there is none.
    """
    names, tasks = np.unique(task_ids, return_inverse=True)
    level = np.full(len(names), np.inf)
    if column is not None:
        bound = X[:, column] * np.log(2.0)
        np.minimum.at(level, tasks, np.where(np.isnan(bound), np.inf, np.log(y) - bound))
    known = np.isfinite(level)
    if not known.any():
        return np.ones(len(y), dtype=bool)
    off = known & (np.abs(level - np.median(level[known])) > _OFF)
    if 2 * int(off.sum()) >= int(known.sum()):
        return np.ones(len(y), dtype=bool)
    return np.asarray(~off[tasks])


@register()
class Guarded(StorableModel):
    """Combine a transfer model with a fallback that learns the new task from nothing, by their evidence.

    **Before anything is measured.** The transfer model skips source tasks whose latency unit differs from
    that of most (``in_common_unit``). ``fit`` holds out groups of source tasks in folds. The share of their
    tasks that the transfer model ranks better than chance (rank correlation above ``least_correlation``) is
    its prior probability to be right for a new task, up to ``trust``. Tasks without two different latencies
    do not count. This detects sources whose labels are meaningless: a model that is more likely wrong than
    right is rejected, and the fallback is used alone.

    **Prediction.** After m measurements, ``adapt`` gives a weighted mean of both models in log latency. The
    weight of the transfer model is the posterior probability that it is the better description (Bayesian
    model averaging: Hoeting et al., Statistical Science 14, 1999). Its odds are the prior odds, lowered if
    the measured candidates are unfamiliar, times the ratio of the two evidences. The evidence of a model is
    the probability that it gave to the measurements' contrasts (``Calibrated.log_evidence``) and, if it
    predicts latency, to their level.

    **Proposals.** Evidence comes too late for a model that is wrong where it matters, among the best few. So
    a search that follows ``propose`` is the fallback's own, with the transfer model's choices in between, as
    many as ``allowed`` leaves room for (``transfer_turns``). The fallback's choices are those that it would
    make alone (``Alone``): what the transfer model measured enters only where the fallback comes to it. A
    good config that somebody else found would draw it away from better ones, and beside a bad one the first
    mediocre config would content it. So for each task, each draw and each order of ties

    ``measurements <= allowed * own``

    with ``own`` those that the fallback needs by itself, whatever the sources are. The transfer model chooses
    by all measurements. It proposes nothing where it is refused.

    Args:
        model: The transfer model; its predictors must compute evidence, as ``Calibrated`` does.
        fallback: The model that learns from nothing.
        group_columns: Positions of the columns that identify known groups (see ``Familiarity``).
        bound_column: Position of a column with log2 of a lower bound in seconds, to detect other units.
        trust: Highest prior probability that the transfer model is the better one.
        least_correlation: Spearman's rank correlation within a task above which a ranking is useful.
        folds: Number of folds; each costs a fit.
        level_doubt: Standard deviation of the level if the transfer model is wrong, in its own ones.
        allowed: Most measurements of a search relative to the fallback's, above 1. More lets a transfer model
            that is right find the best sooner: with 1.25 its first choice is the fourth measurement, with 2
            the first.
    """

    def __init__(  # noqa: PLR0913 (settings, most with defaults)
        self,
        model: StorableModel,
        fallback: StorableModel,
        group_columns: tuple[int, ...] = (),
        bound_column: int | None = None,
        *,
        trust: float = 0.9,
        least_correlation: float = 0.2,
        folds: int = 4,
        level_doubt: float = 4.0,
        allowed: float = 1.25,
    ) -> None:
        self.model = model
        self.fallback = fallback
        self.group_columns = group_columns
        self.bound_column = bound_column
        self.trust = trust
        self.least_correlation = least_correlation
        self.folds = folds
        self.level_doubt = level_doubt
        self.allowed = allowed

    @classmethod
    def around(cls, model: StorableModel, columns: Sequence[Column], _seed: int) -> Self:
        """Around a model for feature tables with these columns."""
        bound = positions(columns, tags=("lower_bound",))
        return cls(model, FromScratch(), positions(columns, "workload"), bound[0] if bound else None)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Fit both models, and learn how far to trust the first.

        Raises:
            ValueError: ``allowed`` is not above 1, or there are fewer than two groups.
        """
        if not self.allowed > 1.0:
            raise ValueError(f"allowed must be above 1, but got {self.allowed}")
        order = np.lexsort([y, *X.T[::-1], task_ids])  # what is learned does not depend on the order given
        X, y, task_ids = X[order], y[order], task_ids[order]
        self.fallback.fit(X, y, task_ids)  # as without a guard, so that it is the same search
        common = in_common_unit(X, y, task_ids, self.bound_column)
        X, y, task_ids = X[common], y[common], task_ids[common]
        groups = group_codes(X, self.group_columns, task_ids)
        self.prior_trust_ = self._cross_validate(X, y, task_ids, group_folds(groups, self.folds, 0))
        self.model.fit(X, y, task_ids)
        self.familiarity_ = Familiarity().fit(X, groups)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """The transfer model's prediction, or the fallback's where the sources do not foretell each other."""
        return (self.fallback if self.refuses else self.model).predict(X)

    def adapt(self, X: FloatArray, y: FloatArray) -> Predictor:
        """The mean of both models' adaptations, weighted by what the measurements say of them.

        Args:
            X: ``(m, d)`` measured candidates of the task, in the order in which they were measured.
            y: ``(m,)`` their latencies in seconds; inf for a config that failed.
        """
        check_measured(X, y)
        if self.refuses:
            return self.fallback.adapt(X, y)
        return Mixture(self.model.adapt(X, y), self.fallback.adapt(X, y), self.weight(X, y))

    def propose(self, X: FloatArray, y: FloatArray) -> Predictor:
        """Return what to measure next by its score, with the latencies that ``adapt`` predicts.

        Who proposed what is worked out from the order of the measurements, each taken to be the best score of
        the proposals before it.
        """
        if self.refuses:
            return self.fallback.propose(X, y)
        turns = transfer_turns(len(y) + 1, self.allowed)
        proposer = self.model.propose(X, y) if turns[-1] else Alone.after(self.fallback, X, y, turns[:-1])
        return Proposal(proposer, self.adapt(X, y) if y.size else self)

    def weight(self, X: FloatArray, y: FloatArray) -> float:
        """Weight of the transfer model in [0, 1] after these measurements."""
        if self.refuses:
            return 0.0
        ran = np.isfinite(y)
        odds = np.log(self.prior_trust_ / (1.0 - self.prior_trust_))
        odds -= max(0.0, float(np.median(self.unfamiliarity(X))) - 1.0)
        if ran.any():
            odds += self._evidence(self.model, X[ran], y[ran]) - self._evidence(self.fallback, X[ran], y[ran])
        return float(1.0 / (1.0 + np.exp(-np.clip(odds, -50.0, 50.0))))

    @property
    def refuses(self) -> bool:
        """Whether the sources do not foretell each other, so that nothing is transferred from them."""
        return self.prior_trust_ < 0.5

    def unfamiliarity(self, X: FloatArray) -> FloatArray:
        """``(n,)`` how unlike all that was learned from; above 1 trust is lowered."""
        return self.familiarity_.unfamiliarity(X)

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "model": self.model.state(),
            "fallback": self.fallback.state(),
            "familiarity": self.familiarity_.state(),
            "prior_trust": self.prior_trust_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.model.load_state(stored.part("model"))
        self.fallback.load_state(stored.part("fallback"))
        self.familiarity_ = Familiarity().load_state(stored.part("familiarity"))
        self.prior_trust_ = stored.number("prior_trust")
        if not 0.0 < self.prior_trust_ < 1.0:
            raise ValueError(f"prior_trust must lie between 0 and 1, but is {self.prior_trust_}")
        return self

    def _cross_validate(self, X: FloatArray, y: FloatArray, task_ids: TaskIds, folds: Codes) -> float:
        """Prior probability that the transfer model is of use to a new task."""
        useful = []
        for fold in np.unique(folds):
            out = folds == fold
            if not np.isfinite(y[~out]).any():
                continue
            score = self.model.fit(X[~out], y[~out], task_ids[~out]).predict(X[out]).score
            for task in np.unique(task_ids[out]):
                at = task_ids[out] == task
                measured = y[out][at]
                if (measured != measured[0]).any():  # else nothing can be ranked, well or badly
                    correlation = rank_correlation(score[at], -measured)
                    useful.append(correlation > self.least_correlation)
        # As if one task more had spoken for it and one against.
        share = (sum(useful) + 1.0) / (len(useful) + 2.0)
        return float(np.clip(share, 1.0 - self.trust, self.trust))

    def _evidence(self, model: TransferModel, X: FloatArray, y: FloatArray) -> float:
        """Log chance that a model gave to the contrasts and to the level, the latter relative to doubt."""
        predictor: Any = model.adapt(X, y)
        surprise, doubt = predictor.level_surprise(), self.level_doubt
        level = np.log(doubt) - 0.5 * surprise**2 * (1.0 - doubt**-2.0)
        return float(predictor.log_evidence() + (level if surprise else 0.0))
