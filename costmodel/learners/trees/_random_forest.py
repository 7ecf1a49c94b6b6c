"""Random forests."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray, TaskIds
from costmodel.columns import Column, position
from costmodel.learners._base import Learner, Prediction
from costmodel.learners._registry import register
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import check_features, lower_bound, prepare

# Stands for a missing value: below any feature, so that one split tells missing from known.
_MISSING = np.float32(-1e9)
# Rows that go down a tree at once; more do not stay in the cache.
_ROWS = 1024


@register("random-forest")
class RandomForestLearner(Learner):
    """Extremely randomised trees for latency above a lower bound.

    Geurts, Ernst and Wehenkel, "Extremely randomized trees", Machine Learning 63, 2006, as scikit-learn grows
    them. Features enter as float32. What is kept is plain arrays of the trees, and predictions need NumPy
    alone. Failures count as slow as ``LOWEST_LOG_SCORE`` says; the score is -log latency.

    On the tasks of half of the workloads of an H100 campaign, leaves of 1 or 8 rows made no difference beyond
    noise, and a quarter of the columns lost 0.04 of Score@1.

    Args:
        baseline_column: Position of a column with log2 of a lower bound in seconds, see ``XGBoostLearner``.
        trees: Number of trees.
        min_leaf: Least rows in a leaf.
        column_share: Share of the columns among which each split is chosen.
        rows: Rows that each tree sees, drawn with replacement where there are more.
        seed: Seed of all that is drawn.
        n_jobs: Threads of ``fit``.
    """

    def __init__(  # noqa: PLR0913 (settings, all with defaults)
        self,
        baseline_column: int | None = None,
        *,
        trees: int = 100,
        min_leaf: int = 3,
        column_share: float = 0.5,
        rows: int = 20_000,
        seed: int = 0,
        n_jobs: int = 1,
    ) -> None:
        self.baseline_column = baseline_column
        self.trees = trees
        self.min_leaf = min_leaf
        self.column_share = column_share
        self.rows = rows
        self.seed = seed
        self.n_jobs = n_jobs

    @classmethod
    def for_columns(cls, columns: Sequence[Column], seed: int) -> Self:
        """Bound to these columns."""
        return cls(position(columns, "lower_bound"), seed=seed)

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        """Grow the trees."""
        from sklearn.ensemble import ExtraTreesRegressor

        training = prepare(X, y, task_ids)
        above = training.clipped_log_latency - lower_bound(training.X, self.baseline_column)
        draws = len(above) > self.rows
        forest = ExtraTreesRegressor(
            n_estimators=self.trees,
            min_samples_leaf=self.min_leaf,
            max_features=self.column_share,
            bootstrap=draws,
            max_samples=self.rows if draws else None,
            random_state=self.seed,
            n_jobs=self.n_jobs,
        ).fit(_filled(training.X), above)
        self.width_ = X.shape[1]
        self._keep([tree.tree_ for tree in forest.estimators_])
        return self

    def predict(self, X: FloatArray) -> Prediction:
        """Latency, and -log latency as score."""
        check_features(X, self.width_)
        above = np.empty(len(X))
        for start in range(0, len(X), _ROWS):
            above[start : start + _ROWS] = self._mean(_filled(X[start : start + _ROWS]))
        log_latency = lower_bound(X, self.baseline_column) + above
        return Prediction(-log_latency, np.exp(log_latency))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "width": self.width_,
            "roots": self.roots_,
            "children": self.children_,
            "feature": self.feature_,
            "threshold": self.threshold_,
            "value": self.value_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.width_ = stored.count("width")
        self.threshold_, self.value_ = stored.floats("threshold", "nodes"), stored.floats("value", "nodes")
        self.feature_ = stored.integers("feature", "nodes", low=0, below=max(1, self.width_))
        self.roots_ = stored.integers("roots", "trees", low=0, below="nodes")
        self.children_ = stored.integers("children", "nodes", 2, low=0, below="nodes")
        inner = self.children_.any(axis=1)
        behind = self.children_ > np.arange(len(self.children_))[:, None]
        if not (behind.all(axis=1) | ~inner).all():
            raise ValueError("in a random forest, children must stand behind their parents")
        return self

    def _keep(self, trees: list[Any]) -> None:
        """The nodes of all trees in one row: children by position, 0 at a leaf, left before right."""
        self.roots_ = np.cumsum([0, *(tree.node_count for tree in trees[:-1])])
        pairs = [np.stack([tree.children_left, tree.children_right], axis=1) for tree in trees]
        shifted = [np.where(pair < 0, 0, pair + root) for pair, root in zip(pairs, self.roots_, strict=True)]
        self.children_ = np.concatenate(shifted).astype(np.int32)
        self.feature_ = np.concatenate([np.maximum(tree.feature, 0) for tree in trees]).astype(np.int32)
        self.threshold_ = np.concatenate([tree.threshold for tree in trees])
        self.value_ = np.concatenate([tree.value.ravel() for tree in trees])

    def _mean(self, X: NDArray[np.float32]) -> FloatArray:
        """``(n,)`` mean of the leaves that the rows end in, going down all trees at once."""
        trees = len(self.roots_)
        node = np.tile(self.roots_, len(X))  # row by row, all trees of a row together
        going = np.flatnonzero(self.children_[node, 0])
        while going.size:
            at = node[going]
            right = X[going // trees, self.feature_[at]] > self.threshold_[at]
            node[going] = self.children_[at, right.astype(np.intp)]
            going = going[self.children_[node[going], 0] > 0]
        return np.asarray(self.value_[node].reshape(len(X), trees).mean(axis=1))


def _filled(X: FloatArray) -> NDArray[np.float32]:
    """Features as the trees see them."""
    return np.where(np.isnan(X), _MISSING, X).astype(np.float32)
