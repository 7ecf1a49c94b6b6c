"""Several learners in one, weighted by predictions for rows that they did not see."""

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, positions
from costmodel.learners._analytic import AnalyticPrior
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._kernel_ridge import KernelRidge
from costmodel.learners._registry import register
from costmodel.learners._scaler import distinct_rows
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import Training, prepare
from costmodel.learners.trees._boosted_trees import XGBoostLearner, XGBoostRanker, XGBoostScorer

_SCORERS = 3  # of a committee


def out_of_fold(  # noqa: PLR0913, PLR0917 (what fit takes, and how it is divided)
    make: Callable[[], Learner],
    X: FloatArray,
    y: FloatArray,
    task_ids: TaskIds,
    groups: NDArray[Any],
    folds: int,
) -> Prediction:
    """Predict each row by a learner that saw nothing of its group (stacked generalisation: Wolpert, 1992).

    Args:
        make: Makes an unfitted learner, one for each fold.
        X: ``(n, d)`` features.
        y: ``(n,)`` seconds; inf for failures.
        task_ids: ``(n,)``.
        groups: ``(n,)``; rows of equal value stay together, such as those of a workload.
        folds: Folds at most; there are no more than groups.

    Returns:
        Score and latency in the order of the rows; no latency where a fold's learner gave none.

    Raises:
        ValueError: There are fewer than two groups or folds, or nothing ran outside of a fold.
    """
    fold = _fold_of(groups, folds)
    score, latency_s, knows_latency = np.empty(len(X)), np.empty(len(X)), True
    for i in range(fold.max() + 1):
        train, test = fold != i, fold == i
        prediction = make().fit(X[train], y[train], task_ids[train]).predict(X[test])
        score[test] = prediction.score
        if prediction.latency_s is None:
            knows_latency = False
        else:
            latency_s[test] = prediction.latency_s
    return Prediction(score, latency_s if knows_latency else None)


def _fold_of(groups: NDArray[Any], folds: int) -> NDArray[np.intp]:
    """``(n,)`` fold of each row: the largest group first, each into the fold with the fewest rows so far."""
    names, group, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    folds = min(folds, len(names))
    if folds < 2:
        raise ValueError(f"two folds and groups must be there, but got {folds} folds of {len(names)} groups")
    fold, filled = np.empty(len(names), dtype=np.intp), np.zeros(folds, dtype=np.intp)
    for i in np.argsort(-sizes, kind="stable"):
        fold[i] = filled.argmin()
        filled[fold[i]] += sizes[i]
    return fold[group]


@register("stack")
class Stack(Learner):
    """The weighted mean of what several learners say, which errs less where they err in different places.

    Merit is -log latency; of a learner that predicts none it is its score, stretched to fit log scores. The
    weights are at least 0 and sum to 1 (stacked regressions: Breiman, Machine Learning 24, 1996). They
    minimise the squared error of the log score within tasks, of rows weighted by score, since it is among the
    fast that a choice is made, on predictions for groups of rows that the learners did not see. Latency is
    the weighted geometric mean over the learners that predict one.

    Args:
        learners: The learners; fitted in place.
        group_columns: Positions of columns; rows with equal values there stay together, as those of a
            workload must.
        folds: Folds of groups from which the weights are learned, which costs as many fits of each learner.
            With fewer than 2, or one group alone, all learners weigh the same.
    """

    def __init__(
        self, learners: tuple[Learner, ...], group_columns: tuple[int, ...] = (), *, folds: int = 0
    ) -> None:
        self.learners = learners
        self.group_columns = group_columns
        self.folds = folds

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Kernel ridge and a ranker, which together choose best on sm-budgets, and trees, which time best."""
        return cls(
            (
                KernelRidge.for_columns(columns, seed),
                XGBoostLearner.for_columns(columns, seed),
                XGBoostRanker.for_columns(columns, seed),
            ),
            positions(columns, "workload"),
        )

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Learn the weights, then let each learner learn from all rows."""
        training = prepare(X, y, task_ids)
        _, group = distinct_rows(training.X[:, list(self.group_columns)])
        weighed = self.folds >= 2 and group.max() > 0
        unseen = [self._unseen(learner, training, group) for learner in self.learners] if weighed else []
        for learner in self.learners:
            learner.fit(X, y, task_ids)
        seen = unseen or [learner.predict(training.X) for learner in self.learners]
        self.slopes_ = np.array([_slope(prediction, training) for prediction in seen])
        self.weights_ = np.full(len(seen), 1.0 / len(seen))
        if weighed:
            merits = np.stack([_within(m, training) for m in self._within_task_scores(unseen)], axis=1)
            emphasis = np.exp(0.5 * training.log_score)
            target = _within(training.log_score, training)
            self.weights_ = simplex_weights(merits * emphasis[:, None], target * emphasis)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Mean merit, and mean latency of those that predict it."""
        predictions = [learner.predict(X) for learner in self.learners]
        score = np.tensordot(self.weights_, self._within_task_scores(predictions), axes=1)
        knows = np.array([prediction.latency_s is not None for prediction in predictions])
        if not knows.any():
            return Prediction(score)
        # Equal weights where all the weight is on learners without latency.
        weights = (
            np.where(knows, self.weights_, 0.0) if self.weights_[knows].any() else knows.astype(np.float64)
        )
        log_latencies = [
            np.zeros(len(X)) if prediction.latency_s is None else np.log(prediction.latency_s)
            for prediction in predictions
        ]
        return Prediction(score, np.exp(np.tensordot(weights / weights.sum(), log_latencies, axes=1)))

    def state(self) -> dict[str, Any]:
        """Learned state, with that of the learners."""
        states = {str(i): learner.state() for i, learner in enumerate(self.learners)}
        return {"weights": self.weights_, "slopes": self.slopes_, "learners": states}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state, {"learners": len(self.learners)})
        self.weights_, self.slopes_ = (
            stored.floats("weights", "learners"),
            stored.floats("slopes", "learners"),
        )
        states = StoredState(stored.part("learners"))
        for i, learner in enumerate(self.learners):
            learner.load_state(states.part(str(i)))
        return self

    def _unseen(self, learner: Learner, training: Training, group: NDArray[np.intp]) -> Prediction:
        y = np.exp(training.log_latency)
        return out_of_fold(lambda: learner, training.X, y, training.tasks, group, self.folds)

    def _within_task_scores(self, predictions: list[Prediction]) -> list[FloatArray]:
        """``(n,)`` of each learner."""
        return [
            slope * prediction.score if prediction.latency_s is None else -np.log(prediction.latency_s)
            for slope, prediction in zip(self.slopes_, predictions, strict=True)
        ]


def simplex_weights(F: FloatArray, target: FloatArray) -> FloatArray:
    """``(m,)`` weights, at least 0 with sum 1, whose mix of ``(n, m)`` columns is nearest to the target."""
    from scipy.optimize import nnls

    # With weights that sum to 1, F w - target is G w. The row of ones asks for that sum; whatever sum s it
    # gets, the direction is that of the least ||G w||: the least of s^2 ||G w||^2 + (s - 1)^2 over s grows
    # with ||G w||.
    G = F - target[:, None]
    scale = max(float(np.linalg.norm(G)), 1.0)
    gram = np.linalg.cholesky(G.T @ G / scale**2 + 1e-12 * np.eye(F.shape[1])).T
    weights, _ = nnls(np.vstack([gram, np.ones(F.shape[1])]), np.append(np.zeros(F.shape[1]), 1.0))
    return np.asarray(weights / weights.sum())


def _slope(prediction: Prediction, training: Training) -> float:
    """Log scores for each unit of a score, by least squares within tasks; 1 for one that predicts latency."""
    if prediction.latency_s is not None:
        return 1.0
    score, target = _within(prediction.score, training), _within(training.log_score, training)
    return max(0.0, float(score @ target) / max(float(score @ score), 1e-12))


def _within(values: FloatArray, training: Training) -> FloatArray:
    """``(n,)`` values less their mean over the task, rows weighted by score."""
    weight = np.exp(training.log_score)
    means = np.bincount(training.tasks, weight * values) / np.bincount(training.tasks, weight)
    return values - means[training.tasks]


@register("committee")
class Committee(Stack):
    """A stack of which most members say the score, and the others the latency.

    Members of one kind differ by seed alone: the choice of one fit moves by as much as most other decisions
    about a model change it, and that of several together moves less (bagging: Breiman, Machine Learning 24,
    1996).

    Args: see ``Stack``.
    """

    orders_apart = True

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Trees for the score, which choose best; trees and kernel ridge, which also tell the latency."""
        seeds = range(_SCORERS * seed, _SCORERS * (seed + 1))  # committees of different seeds share no member
        trees = XGBoostLearner.of_many_tasks(columns, seed)
        scorers = (XGBoostScorer.for_columns(columns, each) for each in seeds)
        return cls((KernelRidge.for_columns(columns, seed), trees, *scorers), positions(columns, "workload"))


@register("stack-above-analytic")
class AboveAnalytic(Learner):
    """A learner whose latencies are those above a weighted sum of analytic times, not above a roofline.

    A roofline knows neither atomics nor the loads that a thread waits for, which of kernels whose work
    depends on their data take most of the time: ``AnalyticPrior``, fitted to the same rows, does. What it
    says stands behind the last column, as log2 of seconds.

    Args:
        prior: The analytic times; fitted in place.
        learner: The learner, which has the column behind the last as its baseline; fitted in place.
    """

    def __init__(self, prior: AnalyticPrior, learner: Learner) -> None:
        self.prior = prior
        self.learner = learner

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Trees, which time best above such a sum, and a ranker, which with them chooses best."""
        trees = XGBoostLearner(baseline_column=len(columns), depth=8, min_child_weight=30.0, seed=seed)
        stack = Stack((trees, XGBoostRanker(seed=seed)), positions(columns, "workload"))
        return cls(AnalyticPrior.for_columns(columns, seed), stack)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Weigh the analytic times, then let the learner learn what is above them."""
        self.prior.fit(X, y, task_ids)
        self.learner.fit(self._with_prior(X), y, task_ids)
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Predict as the learner does."""
        return self.learner.predict(self._with_prior(X))

    def state(self) -> dict[str, Any]:
        """Learned state of both."""
        return {"prior": self.prior.state(), "learner": self.learner.state()}

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.prior.load_state(stored.part("prior"))
        self.learner.load_state(stored.part("learner"))
        return self

    def _with_prior(self, X: FloatArray) -> FloatArray:
        """``(n, d + 1)`` columns with log2 of the analytic seconds behind them."""
        latency_s = self.prior.predict(X).latency_s
        assert latency_s is not None
        return np.column_stack([X, np.log2(latency_s)])
