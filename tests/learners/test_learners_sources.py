"""Source tasks side by side: one search for tasks with equal configs, and latencies above a bound."""

import numpy as np
import pytest
from scipy.spatial import cKDTree

from costmodel.learners import prepare
from costmodel.learners._curves import TaskCurves
from costmodel.learners._scaler import Scaler, distinct_rows, row_keys
from costmodel.learners._source_rules import NearestTask, WeightedConsensus, source_weights
from costmodel.learners._training import task_levels

pytestmark = pytest.mark.white_box

TASK, CONFIG, PLATFORM_DEPENDENT, BOUND = (0, 1), (2, 3), 4, 1


@pytest.fixture
def platforms():
    """Three workloads (column 0) of 15 configs each on four platforms (column 1 is log2 of a bound).

    Column 4 depends on config and platform, as waves do.
    """
    rng = np.random.default_rng(0)
    rows, times, tasks = [], [], []
    for workload in range(3):
        configs = rng.normal(size=(15, 2))
        for platform in range(4):
            bound = -16.0 - platform + 0.5 * workload
            described = np.tile([workload, bound], (15, 1))
            rows.append(np.column_stack([described, configs, configs[:, 0] * platform]))
            times.append(
                2.0**bound * 3.0 * np.exp(0.3 * np.square(configs).sum(axis=1) + 0.1 * rng.random(15))
            )
            tasks += [f"{workload}@{platform}"] * 15
    return np.vstack(rows), np.concatenate(times), np.array(tasks)


def test_what_is_remembered_of_other_questions_changes_no_answer(platforms) -> None:
    training = prepare(*platforms)
    curves = TaskCurves(TASK, 3, CONFIG).fit(training)
    questions = [platforms[0][i : i + 5] + 0.01 * (i + 1) for i in range(50)]
    for question in (*questions, *questions[::-1]):
        expected = TaskCurves(TASK, 3, CONFIG).fit(training).log_scores(question)
        assert np.array_equal(curves.log_scores(question), expected)


def test_log_scores_are_those_of_one_search_for_each_task(platforms) -> None:
    X, y, tasks = platforms
    training = prepare(X, y, tasks)
    curves = TaskCurves(TASK, 3, CONFIG).fit(training)
    queries = X[::4] + np.random.default_rng(1).normal(size=(45, 5))
    scaler = Scaler().fit(X[:, CONFIG])
    for task in range(12):
        own = training.tasks == task
        tree = cKDTree(scaler.transform(training.X[own][:, CONFIG]))
        distance, nearest = tree.query(scaler.transform(queries[:, CONFIG]), k=3)
        weight = distance**-2.0
        expected = (weight * training.log_score[own][nearest]).sum(axis=1) / weight.sum(axis=1)
        np.testing.assert_allclose(curves.log_scores(queries)[:, task], expected, rtol=1e-9)
        np.testing.assert_allclose(curves.log_score_of(task, queries), expected, rtol=1e-9)


def test_platforms_of_a_workload_share_a_search_tree_if_config_columns_are_named(platforms) -> None:
    training = prepare(*platforms)
    assert len(TaskCurves(TASK, 3, CONFIG).fit(training)._trees) == 3
    assert len(TaskCurves(TASK, 3).fit(training)._trees) == 12


@pytest.mark.parametrize("config_columns", [CONFIG, None])
def test_the_mean_log_score_is_that_of_the_matrix_of_rows_and_tasks(platforms, config_columns) -> None:
    X, y, tasks = platforms
    curves = TaskCurves(TASK, 3, config_columns).fit(prepare(X, y, tasks))
    queries = X[np.random.default_rng(2).permutation(len(X))]
    first, place = curves.places(queries)
    weights = np.random.default_rng(3).random((len(first), 12))
    weights[weights < 0.5] = 0.0
    expected = (weights[place] * curves.log_scores(queries)).sum(axis=1)
    np.testing.assert_allclose(curves.mean_log_score(queries, weights, place), expected, rtol=1e-12)


def test_configs_that_no_column_tells_apart_count_as_one() -> None:
    X = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 2.0]])
    y = np.array([1.0, 4.0, 2.0])
    curves = TaskCurves((), 1, (0,)).fit(prepare(X, y, np.zeros(3)))
    np.testing.assert_allclose(curves.log_scores(X)[:, 0], np.log([0.5, 0.5, 0.5]), rtol=1e-12)


def test_a_measured_task_gets_its_own_latency_back(platforms) -> None:
    X, y, tasks = platforms
    learner = NearestTask(TASK, config_columns=CONFIG, baseline_column=BOUND).fit(X, y, tasks)
    np.testing.assert_allclose(learner.predict(X).latency_s, y, rtol=1e-9)


def test_latency_on_a_new_platform_scales_with_its_bound(platforms) -> None:
    X, y, tasks = platforms
    faster = X[:15].copy()
    faster[:, BOUND] -= 6.0
    for learner in (
        NearestTask(TASK, config_columns=CONFIG, baseline_column=BOUND),
        WeightedConsensus(TASK, config_columns=CONFIG, baseline_column=BOUND, sources=3),
    ):
        prediction = learner.fit(X, y, tasks).predict(faster)
        best = np.array([y[tasks == task].min() for task in np.unique(tasks)])
        bounds = np.array([2.0 ** X[tasks == task][0, BOUND] for task in np.unique(tasks)])
        ratio = prediction.latency_s.min() / 2.0 ** faster[0, BOUND]
        assert (best / bounds).min() * 0.9 <= ratio <= (best / bounds).max() * 1.3
        np.testing.assert_allclose(
            np.diff(np.log(prediction.latency_s)), -np.diff(prediction.score), rtol=1e-6
        )


def test_consensus_latency_is_the_weighted_mean_level_above_the_bound(platforms) -> None:
    X, y, tasks = platforms
    learner = WeightedConsensus(TASK, config_columns=CONFIG, baseline_column=BOUND, bandwidth=0.7, sources=99)
    prediction = learner.fit(X, y, tasks).predict(X[:15])
    names = np.unique(tasks)
    descriptors = np.array([X[tasks == name][0, :2] for name in names])
    Z = (descriptors - descriptors.mean(axis=0)) / descriptors.std(axis=0)
    weight = np.exp(-np.square(Z - Z[0]).sum(axis=1) / 2 / (2 * 0.7**2))
    levels = [np.log(y[tasks == name].min()) - X[tasks == name][0, BOUND] * np.log(2.0) for name in names]
    level = weight @ np.array(levels) / weight.sum()
    expected = X[:15, BOUND] * np.log(2.0) + level - prediction.score
    np.testing.assert_allclose(np.log(prediction.latency_s), expected, rtol=1e-9)


@pytest.mark.parametrize("bound", [None, 0])
def test_no_latency_without_a_bound(platforms, bound) -> None:
    X, y, tasks = platforms
    X = np.column_stack([np.full(len(X), np.nan), X[:, 1:]])
    for learner in (WeightedConsensus(TASK, baseline_column=bound), NearestTask(TASK, baseline_column=bound)):
        fitted = learner.fit(X, y, tasks)
        assert fitted.predict(X).latency_s is None
    assert task_levels(prepare(X, y, tasks), bound) is None


def test_many_sources_do_not_drown_the_near_ones() -> None:
    distances = np.concatenate([[0.0, 0.1], np.full(500, 2.0)])[None]
    drowned = source_weights(distances, 2.0, 1000)
    kept = source_weights(distances, 2.0, 2)
    np.testing.assert_allclose(drowned[0, 2] / drowned[0, 0], np.exp(-0.5), rtol=1e-12)
    assert drowned[0, :2].sum() < 0.01
    assert kept[0, :2].sum() > 0.99
    np.testing.assert_allclose(kept[0, 1] / kept[0, 0], np.exp(-0.5), rtol=1e-9)


def test_beyond_four_times_the_sources_tasks_weigh_nothing() -> None:
    weights = source_weights(np.arange(20.0)[None], 9.0, 2)
    assert np.flatnonzero(weights[0]).tolist() == list(range(8))
    assert (source_weights(np.arange(8.0)[None], 9.0, 2) > 0.0).all()


def test_sources_equally_near_weigh_the_same_and_those_infinitely_far_nothing() -> None:
    weights = source_weights(np.array([[3.0, 3.0, 3.0, np.inf], [0.0, 0.0, 1.0, np.inf]]), 0.5, 2)
    np.testing.assert_allclose(weights, [[1 / 3, 1 / 3, 1 / 3, 0.0], [0.5, 0.5, 0.0, 0.0]], atol=1e-12)


def test_a_row_is_found_again_by_its_values() -> None:
    X = np.array([[0.0, np.nan], [1.0, 2.0]])
    assert row_keys(X) == row_keys(np.array([[-0.0, -np.nan], [1.0, 2.0]]))
    assert row_keys(X)[0] != row_keys(X)[1]


def test_distinct_rows_are_told_apart_by_their_values() -> None:
    X = np.array([[1.0, np.nan], [0.0, 2.0], [1.0, np.nan], [-0.0, 2.0], [1.0, 2.0]])
    first, row = distinct_rows(X)
    assert len(first) == 3
    np.testing.assert_array_equal(np.nan_to_num(X[first][row]), np.nan_to_num(X))
    assert distinct_rows(X[:, :0])[0].tolist() == [0]
    assert distinct_rows(X[:0, :0])[0].size == 0


def test_what_was_asked_is_remembered_for_every_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few-shot evaluation asks again for the same candidates, however many workloads were learned from."""
    workloads, configs = 50, 6
    rng = np.random.default_rng(0)
    X = np.hstack([np.repeat(np.arange(workloads), configs)[:, None], rng.random((workloads * configs, 2))])
    tasks = np.repeat(np.arange(workloads), configs).astype(str)
    curves = TaskCurves((0,), 3).fit(prepare(X, rng.random(len(X)) + 1.0, tasks))
    searched: list[int] = []
    search = TaskCurves._search

    def counted(self: TaskCurves, group: int, asked: np.ndarray) -> object:
        searched.append(group)
        return search(self, group, asked)

    monkeypatch.setattr(TaskCurves, "_search", counted)
    candidates, measured = np.hstack([np.zeros((8, 1)), rng.random((8, 2))]), X[:2]
    first = [curves.log_scores(asked) for asked in (candidates, measured)]
    assert len(searched) == 2 * workloads
    again = [curves.log_scores(asked) for asked in (candidates, measured)]
    assert len(searched) == 2 * workloads
    assert all(np.array_equal(one, other) for one, other in zip(first, again, strict=True))
