"""Source tasks as functions of the config: interpolation between the configs that each measured."""

from collections import OrderedDict
from collections.abc import Iterable
from hashlib import sha256
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from costmodel.arrays import FloatArray
from costmodel.learners._scaler import Scaler, distinct_rows
from costmodel.learners._stored_state import StoredState
from costmodel.learners._training import Training, check_features, first_rows

_ROWS = 50_000  # after which no further task is looked at
_LEAST = 0.01  # what changed nothing where it was seen may change something elsewhere


def importance(training: Training, columns: NDArray[np.intp]) -> FloatArray:
    """``(c,)`` how much each column changes the score of a config, above 0, 1 for the one that does most.

    It is the root of the column's total effect, the mean variance of best / latency among configs of a task
    that differ in this column alone (Homma and Saltelli, "Importance measures in global sensitivity analysis
    of nonlinear models", Reliability Engineering 52, 1996). Configs weigh as much as the best that differs in
    nothing else. A column that never differs alone counts as the mean of those that do; where none does, or
    nothing changes the score, all count the same.

    Args:
        training: Rows of source tasks.
        columns: ``(c,)`` positions of the columns.
    """
    starts = first_rows(training)
    end = next((start for start in starts[1:] if start >= _ROWS), len(training.X))
    rows = np.column_stack([training.X[:end, columns], training.tasks[:end]])
    first, config = distinct_rows(rows)
    score = np.bincount(config, np.exp(training.log_score[:end])) / np.bincount(config)
    effects = np.array([_total_effect(np.delete(rows[first], i, axis=1), score) for i in range(len(columns))])
    known = ~np.isnan(effects)
    if not effects[known].any():
        return np.ones(len(columns))
    roots = np.sqrt(np.where(known, effects, effects[known].mean()))
    return np.asarray(np.maximum(roots / roots.max(), _LEAST))


def _total_effect(others: FloatArray, score: FloatArray) -> float:
    """Mean variance of the score among configs that agree in all other columns; NaN where none do."""
    alike = distinct_rows(others)[1]
    count = np.bincount(alike)
    mean = np.bincount(alike, score) / count
    variance = np.bincount(alike, np.square(score - mean[alike])) / count
    best = np.zeros(len(count))
    np.maximum.at(best, alike, score)
    weight = np.where(count > 1, best, 0.0)
    return float(weight @ variance / weight.sum()) if weight.any() else np.nan


# Bytes of answers about neighbours that are remembered: those of all groups to a task's candidates and to
# what was measured of it. Fewer answers than groups would be forgotten before they are asked for again.
_REMEMBERED_BYTES = 128 * 2**20

# A group and the configs that it was asked about; positions of its nearest points, and their weights.
_Key: TypeAlias = tuple[int, bytes]
_Found: TypeAlias = tuple[NDArray[np.intp], FloatArray]


class TaskCurves:
    """Source tasks side by side: where each lies, and its log score as a function of the config.

    A task's log score at a config is the mean of its ``neighbours`` nearest configs, weighted by
    1 / distance^2 (Shepard, "A two-dimensional interpolation function for irregularly-spaced data", 1968)
    over standardised config columns. A config that the task has measured gets exactly its own log score:
    where all tasks share their configs, as when one kernel is measured on many devices, nothing is
    interpolated. Configs that no column tells apart count as one, with their mean log score.

    A task says nothing of configs of another space: those that share less than half of the config columns
    that are known of either.

    Tasks that measured the same configs share one search tree, so that a workload costs one search, however
    many platforms measured it. That takes config columns that do not depend on the platform.

    Columns weigh alike, or by what they change (``importance``), so that the nearest configs are those that
    differ in little that matters.

    Notations:
        t: source tasks. g: search trees. c: config columns. n: query rows.

    Args:
        task_columns: Positions of the columns that describe the task.
        neighbours: Configs to average.
        config_columns: Positions of the columns that describe the config; all but ``task_columns`` for None.
            Columns of neither kind are ignored.
        by_importance: Whether columns weigh by what they change.
    """

    def __init__(
        self,
        task_columns: tuple[int, ...],
        neighbours: int,
        config_columns: tuple[int, ...] | None = None,
        *,
        by_importance: bool = False,
    ) -> None:
        self.task_columns = task_columns
        self.neighbours = neighbours
        self.config_columns = config_columns
        self.by_importance = by_importance

    def fit(self, training: Training) -> Self:
        """Remember where the tasks lie, their distinct configs and the log scores of these."""
        self.width_ = training.X.shape[1]
        starts = first_rows(training)
        descriptors = training.X[starts][:, self._is_task]
        self.task_scaler_ = Scaler().fit(descriptors)
        self.config_scaler_ = Scaler().fit(training.X, self._is_config)
        if self.by_importance:
            self.config_scaler_.scale_ /= importance(training, np.flatnonzero(self._is_config))
        self.centres_ = self.task_scaler_.transform(descriptors)
        tasks = np.split(training.X, starts[1:])
        self.present_ = np.array([~np.isnan(X).all(axis=0) for X in tasks])[:, self._is_config]
        log_scores = np.split(training.log_score, starts[1:])
        self._group(self._curve(X[:, self._is_config], of) for X, of in zip(tasks, log_scores, strict=True))
        return self._index()

    def places(self, X: FloatArray) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Rows that differ for ``distances_at``: the first of each, ``(p,)``, and each row's, ``(n,)``.

        There are about as many as there are query tasks.
        """
        check_features(X, self.width_)
        task = distinct_rows(X[:, self._is_task])[1]
        pattern = distinct_rows(np.isnan(X[:, self._is_config]))[1]
        _, first, place = np.unique(
            task * (pattern.max(initial=0) + 1) + pattern, return_index=True, return_inverse=True
        )
        return first, place

    def distances_at(self, X: FloatArray) -> FloatArray:
        """``(p, t)`` distance between each row's task and each source task, over standardised task columns.

        The unit is the root mean square over columns, so that it does not grow with their number. Tasks that
        say nothing of a row are infinitely far; where none says anything, all are equally near. Each row is
        looked at by itself, so ask for the few that ``places`` names.
        """
        rows = self.task_scaler_.transform(X[:, self._is_task])
        distances = np.array([_rms(self.centres_ - row) for row in rows]).reshape(
            len(rows), len(self.centres_)
        )
        distances[~self.comparable(X)] = np.inf
        distances[np.isinf(distances).all(axis=1)] = 0.0
        return distances

    def comparable(self, X: FloatArray) -> NDArray[np.bool_]:
        """``(n, t)`` whether a source task says something of each row's config."""
        check_features(X, self.width_)
        return self._comparable(X[:, self._is_config])

    def log_scores(self, X: FloatArray) -> FloatArray:
        """``(n, t)`` log score that each source task gives each row's config; 0 where it says nothing."""
        check_features(X, self.width_)
        configs = X[:, self._is_config]
        first, config = distinct_rows(configs)
        return self._log_scores(configs[first])[config]

    def mean_log_score(self, X: FloatArray, weights: FloatArray, place: NDArray[np.intp]) -> FloatArray:
        """``(n,)`` sum over source tasks of weight x log score; tasks that weigh nothing cost nothing.

        Args:
            X: ``(n, d)`` query rows.
            weights: ``(p, t)`` weights of the source tasks at each place.
            place: ``(n,)`` each row's place.
        """
        check_features(X, self.width_)
        configs = X[:, self._is_config]
        first, config = distinct_rows(configs)
        comparable, pattern = self._comparable_patterns(configs)
        means = np.zeros(len(X))
        for group, tasks in enumerate(self._members):
            speaks = np.asarray((weights[:, tasks] > 0.0).any(axis=1))
            rows = np.flatnonzero(speaks[place])
            if rows.size:
                needed, at = np.unique(config[rows], return_inverse=True)
                scores = self._interpolated(group, configs[first[needed]])
                weight = np.where(comparable[:, tasks][pattern[rows]], weights[:, tasks][place[rows]], 0.0)
                means[rows] += (weight * scores[at]).sum(axis=1)
        return means

    def log_score_of(self, task: int, X: FloatArray) -> FloatArray:
        """``(n,)`` log score that one source task gives each row's config."""
        check_features(X, self.width_)
        group = int(self.group_of_[task])
        nearest, weight = self._nearest(group, X[:, self._is_config])
        member = int((self.group_of_[:task] == group).sum())
        return np.asarray((weight * self._known[group][nearest, member]).sum(axis=1))

    def state(self) -> dict[str, Any]:
        """Learned state."""
        return {
            "width": self.width_,
            "task_scaler": self.task_scaler_.state(),
            "config_scaler": self.config_scaler_.state(),
            "centres": self.centres_,
            "present": self.present_,
            "points": self.points_,
            "sizes": self.sizes_,
            "group_of": self.group_of_,
            "log_score": self.log_score_,
        }

    def load_state(self, state: dict[str, Any]) -> Self:
        """Take over what ``state`` gave."""
        stored = StoredState(state)
        self.width_ = stored.count("width")
        self.task_scaler_ = Scaler().load_state(stored.part("task_scaler"))
        self.config_scaler_ = Scaler().load_state(stored.part("config_scaler"))
        self.centres_ = stored.floats("centres", "t", int(self._is_task.sum()))
        self.present_ = stored.flags("present", "t", int(self._is_config.sum()))
        self.points_ = stored.floats("points", "points", int(self._is_config.sum()))
        self.sizes_ = stored.integers("sizes", "g", low=1, below=len(self.points_) + 1)
        self.group_of_ = stored.integers("group_of", "t", low=0, below="g")
        self.log_score_ = stored.floats("log_score", int(self.sizes_[self.group_of_].sum()))
        if self.sizes_.sum() != len(self.points_) or len(np.unique(self.group_of_)) != len(self.sizes_):
            raise ValueError("in the learned state, each point and each group must have its task")
        return self._index()

    @property
    def _is_task(self) -> NDArray[np.bool_]:
        return np.isin(np.arange(self.width_), self.task_columns)

    @property
    def _is_config(self) -> NDArray[np.bool_]:
        if self.config_columns is None:
            return ~self._is_task
        return np.isin(np.arange(self.width_), self.config_columns)

    def _curve(self, configs: FloatArray, log_score: FloatArray) -> tuple[FloatArray, FloatArray]:
        """A task's distinct configs, standardised, in canonical order, and their mean log scores."""
        points = self.config_scaler_.transform(configs)
        varying = (points != points[:1]).any(axis=0)  # the others have no part in their order
        _, first, point = np.unique(points[:, varying], axis=0, return_index=True, return_inverse=True)
        point = point.ravel()
        return np.ascontiguousarray(points[first]), np.bincount(point, log_score) / np.bincount(point)

    def _group(self, curves: Iterable[tuple[FloatArray, FloatArray]]) -> None:
        """Give tasks with equal configs one group; groups are numbered in order of their first task."""
        groups: dict[bytes, int] = {}
        distinct: list[FloatArray] = []
        group_of, log_scores = [], []
        for points, log_score in curves:
            group_of.append(groups.setdefault(sha256(points.data).digest(), len(distinct)))
            log_scores.append(log_score)
            if group_of[-1] == len(distinct):
                distinct.append(points)
        self.group_of_ = np.array(group_of)
        self.points_, self.sizes_ = np.concatenate(distinct), np.array([len(points) for points in distinct])
        self.log_score_ = np.concatenate(log_scores)

    def _index(self) -> Self:
        """Build what follows from the state: each group's search tree, and its ``(points, tasks)`` scores."""
        from scipy.spatial import cKDTree

        each = np.split(self.log_score_, np.cumsum(self.sizes_[self.group_of_])[:-1])
        self._members = [np.flatnonzero(self.group_of_ == group) for group in range(len(self.sizes_))]
        self._known = [np.stack([each[task] for task in tasks], axis=1) for tasks in self._members]
        points = np.split(self.points_, np.cumsum(self.sizes_)[:-1])
        self._trees = [cKDTree(of_group) for of_group in points]
        self._place_of = [{key: i for i, key in enumerate(_keys(of_group))} for of_group in points]
        self._last_found: OrderedDict[_Key, _Found] = OrderedDict()
        self._remembered_bytes = 0
        return self

    def _comparable(self, configs: FloatArray) -> NDArray[np.bool_]:
        comparable, pattern = self._comparable_patterns(configs)
        return np.asarray(comparable[pattern])

    def _comparable_patterns(self, configs: FloatArray) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
        """Find tasks that speak of rows that know the same columns, ``(patterns, t)``; each row's pattern."""
        first, pattern = distinct_rows(~np.isnan(configs))
        known = (~np.isnan(configs[first])).astype(np.float64)
        both = known @ self.present_.T.astype(np.float64)
        either = known.sum(axis=1, keepdims=True) + self.present_.sum(axis=1) - both
        return np.asarray(2.0 * both >= either), pattern

    def _log_scores(self, configs: FloatArray) -> FloatArray:
        """``(n, t)`` log scores of ``(n, c)`` configs."""
        comparable = self._comparable(configs)
        scores = np.zeros(comparable.shape)
        for group, tasks in enumerate(self._members):
            rows = np.flatnonzero(comparable[:, tasks].any(axis=1))
            scores[np.ix_(rows, tasks)] = self._interpolated(group, configs[rows])
        return np.where(comparable, scores, 0.0)

    def _interpolated(self, group: int, configs: FloatArray) -> FloatArray:
        """``(n, tasks)`` log scores that the tasks of a group give ``(n, c)`` configs."""
        nearest, weight = self._nearest(group, configs)
        return np.asarray(np.einsum("nk,nkt->nt", weight, self._known[group][nearest]))

    def _nearest(self, group: int, configs: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """Return what ``_search`` finds, remembered: a search asks again after each measurement."""
        key = group, configs.tobytes()
        known = self._last_found.pop(key, None)
        found = known or self._search(group, configs)
        self._last_found[key] = found
        self._remembered_bytes += 0 if known else _size(key, found)
        while self._remembered_bytes > _REMEMBERED_BYTES and len(self._last_found) > 1:
            self._remembered_bytes -= _size(*self._last_found.popitem(last=False))
        return found

    def _search(self, group: int, configs: FloatArray) -> tuple[NDArray[np.intp], FloatArray]:
        """``(n, k)`` positions of the nearest points of a group, and their weights, which sum to 1."""
        tree = self._trees[group]
        rows = self.config_scaler_.transform(configs)
        # Most configs were measured, and looking them up spares a search in many dimensions.
        place = np.array([self._place_of[group].get(key, -1) for key in _keys(rows)], dtype=np.intp)
        count, new = min(self.neighbours, tree.n), place < 0
        nearest = np.repeat(place[:, None], count, axis=1)
        weight = np.zeros(nearest.shape)
        weight[:, 0] = 1.0
        distance, nearest[new] = tree.query(rows[new], k=np.arange(1, count + 1))
        # Weights relative to the nearest: 1 for it.
        weight[new] = np.square(np.maximum(distance[:, :1], 1e-12) / np.maximum(distance, 1e-12))
        return nearest, weight / weight.sum(axis=1, keepdims=True)


def _keys(rows: FloatArray) -> list[bytes]:
    """One key a row, the same for equal rows; + 0.0 makes -0.0 and 0.0 the same bytes."""
    return [row.tobytes() for row in rows + 0.0]


def _size(key: _Key, found: _Found) -> int:
    """Bytes of an answer and of its question."""
    return len(key[1]) + sum(part.nbytes for part in found)


def _rms(differences: FloatArray) -> FloatArray:
    """``(n,)`` root mean square of ``(n, c)`` differences; 0 without columns."""
    return np.asarray(np.sqrt(np.square(differences).sum(axis=1) / max(1, differences.shape[1])))
