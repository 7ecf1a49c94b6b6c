"""Contract checks for learners, and for models that transfer: every one passes the same.

A test parametrises over the checks::

    @pytest.mark.parametrize("check", LEARNER_CHECKS)
    def test_my_learner_keeps_the_contract(check):
        check(lambda: MyLearner())

The rows are made up: columns 0 and 1 describe the task, columns 2 to 4 the config, column 4 is missing in
places.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners._base import Learner, Prediction
from costmodel.transfer._base import Predictor, StorableModel, TransferModel

LearnerFactory = Callable[[], Learner]

_FIELDS = ("score", "latency_s", "low_s", "high_s")


def contract_rows(seed: int = 0) -> tuple[FloatArray, FloatArray, TaskIds]:
    """Return X ``(96, 5)``, y ``(96,)`` and task ids of four tasks; 6 configs fail."""
    rng = np.random.default_rng(seed)
    tasks = np.repeat(np.arange(4), 24)
    config = rng.normal(size=(96, 3))
    effort = 0.3 * config[:, 0] ** 2 + 0.2 * config[:, 1] + 0.1 * tasks
    y = 1e-5 * np.exp(effort)
    y[rng.choice(96, 6, replace=False)] = np.inf
    config[::7, 2] = np.nan
    X = np.column_stack([tasks, tasks**2, config]).astype(np.float64)
    return X, y, np.array([f"task {task}" for task in tasks])


def check_gives_a_finite_score_for_each_row(make: LearnerFactory) -> None:
    """Scores are finite and of shape (n,); latencies and intervals, if given, are positive and in order."""
    X, y, tasks = contract_rows()
    learner = make()
    assert learner.fit(X, y, tasks) is learner, "fit must return the learner"
    prediction = learner.predict(X)
    assert prediction.score.shape == (len(X),)
    assert prediction.score.dtype == np.float64
    assert np.isfinite(prediction.score).all()
    if prediction.latency_s is not None:
        assert prediction.latency_s.shape == (len(X),)
        assert prediction.latency_s.dtype == np.float64
        assert (prediction.latency_s > 0).all()
        assert np.isfinite(prediction.latency_s).all()
    _assert_interval(prediction)


def check_fit_forgets(make: LearnerFactory) -> None:
    """A second fit leaves nothing of the first."""
    first, second = contract_rows(1), contract_rows(2)
    twice, once = make().fit(*first).fit(*second), make().fit(*second)
    _assert_same(twice, once, second[0])


def check_ignores_batch_mates(make: LearnerFactory) -> None:
    """A row's prediction is the same alone, in a batch, and in another order."""
    X, y, tasks = contract_rows()
    learner = make().fit(X, y, tasks)
    together = learner.predict(X)
    alone = [learner.predict(row[None]) for row in X[:8]]
    backwards = learner.predict(X[::-1])
    for name in _FIELDS:
        values = getattr(together, name)
        if values is None:
            assert getattr(backwards, name) is None
            assert all(getattr(one, name) is None for one in alone)
            continue
        each = np.concatenate([getattr(one, name) for one in alone])
        np.testing.assert_allclose(each, values[:8], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(getattr(backwards, name), values[::-1], rtol=1e-9, atol=1e-12)


def check_predicts_no_rows(make: LearnerFactory) -> None:
    """Nothing is predicted of nothing."""
    X, y, tasks = contract_rows()
    prediction = make().fit(X, y, tasks).predict(X[:0])
    assert prediction.score.shape == (0,)
    assert prediction.latency_s is None or prediction.latency_s.shape == (0,)


def check_ignores_order_of_training_rows(make: LearnerFactory) -> None:
    """Shuffled training rows teach the same."""
    X, y, tasks = contract_rows()
    shuffled = np.random.default_rng(3).permutation(len(X))
    _assert_same(make().fit(X, y, tasks), make().fit(X[shuffled], y[shuffled], tasks[shuffled]), X)


def check_ignores_names_of_tasks(make: LearnerFactory) -> None:
    """Task ids only group: other names in the same order teach the same."""
    X, y, tasks = contract_rows()
    _assert_same(make().fit(X, y, tasks), make().fit(X, y, np.array([int(task[-1]) for task in tasks])), X)


def check_state_round_trips(make: LearnerFactory) -> None:
    """Another learner with the same settings takes over the state, which is plain data."""
    X, y, tasks = contract_rows()
    learner = make().fit(X, y, tasks)
    state = learner.state()
    _assert_plain(state)
    _assert_same(learner, make().load_state(state), X)


def check_accepts_failures(make: LearnerFactory) -> None:
    """A task of which nothing ran, and rows that all failed but one, are no errors."""
    X, y, tasks = contract_rows()
    y[tasks == "task 2"] = np.inf
    y[tasks == "task 3"] = np.where(np.arange((tasks == "task 3").sum()) == 5, 1e-5, np.inf)
    assert np.isfinite(make().fit(X, y, tasks).predict(X).score).all()


def check_refuses_bad_input(make: LearnerFactory) -> None:
    """Shapes that disagree, latencies that are none, and rows of another width raise ValueError."""
    X, y, tasks = contract_rows()
    _assert_raises(lambda: make().fit(X, y[1:], tasks))
    _assert_raises(lambda: make().fit(X, y, tasks[1:]))
    _assert_raises(lambda: make().fit(X[:, 0], y, tasks))
    _assert_raises(lambda: make().fit(X, np.full_like(y, np.inf), tasks))
    _assert_raises(lambda: make().fit(X, np.zeros_like(y), tasks))
    _assert_raises(lambda: make().fit(X, np.full_like(y, np.nan), tasks))
    _assert_raises(lambda: make().fit(X, y, tasks).predict(X[:, 1:]))


LEARNER_CHECKS = (
    check_gives_a_finite_score_for_each_row,
    check_fit_forgets,
    check_ignores_batch_mates,
    check_predicts_no_rows,
    check_ignores_order_of_training_rows,
    check_ignores_names_of_tasks,
    check_state_round_trips,
    check_accepts_failures,
    check_refuses_bad_input,
)
"""What each learner must do: functions that take a factory of it."""


def check_learner(make: LearnerFactory) -> None:
    """Run all ``LEARNER_CHECKS``."""
    for check in LEARNER_CHECKS:
        check(make)


def _assert_same(a: Learner, b: Learner, X: FloatArray) -> None:
    first, second = a.predict(X), b.predict(X)
    for name in _FIELDS:
        one, other = getattr(first, name), getattr(second, name)
        if one is None or other is None:
            assert one is other
        else:
            np.testing.assert_array_equal(one, other)


def _assert_interval(prediction: Prediction) -> None:
    """Both ends or none, positive, with the latency between them."""
    low, latency, high = prediction.low_s, prediction.latency_s, prediction.high_s
    if low is None or high is None:
        assert low is high, "low_s and high_s must be given together"
        return
    assert latency is not None, "an interval must have a latency"
    assert low.shape == high.shape == latency.shape
    assert (low > 0).all()
    assert (low <= latency).all()
    assert (latency <= high).all()


def _assert_plain(value: Any) -> None:
    """Numbers, strings, bytes, numeric arrays, and dicts of them."""
    if isinstance(value, dict):
        for item in value.values():
            _assert_plain(item)
    elif isinstance(value, np.ndarray):
        assert value.dtype.kind in "fiub", f"arrays in a state must be numeric, but got {value.dtype}"
    else:
        assert isinstance(value, int | float | str | bytes), f"a state must be plain, but got {type(value)}"


def _assert_raises(action: Callable[[], object]) -> None:
    try:
        action()
    except ValueError:
        return
    raise AssertionError("ValueError must be raised")


ModelFactory = Callable[[], TransferModel]


def check_predicts_for_each_row(make: ModelFactory) -> None:
    """Zero-shot, adapted and proposing: finite scores, positive latencies inside of their intervals."""
    X, y, tasks = contract_rows()
    model = make()
    assert model.fit(X, y, tasks) is model, "fit must return the model"
    for predictor in _predictors(model):
        prediction = predictor.predict(X)
        assert prediction.score.shape == (len(X),)
        assert np.isfinite(prediction.score).all()
        _check_latencies(prediction, len(X))


def check_adapting_leaves_the_model_as_it_is(make: ModelFactory) -> None:
    """A model serves many tasks, one after the other."""
    X, y, tasks = contract_rows()
    model = make().fit(X, y, tasks)
    before = model.predict(X).score
    first = model.adapt(*_measured())
    known = first.predict(X).score
    model.adapt(X[40:44], np.full(4, 1e-3))
    np.testing.assert_array_equal(model.predict(X).score, before)
    np.testing.assert_array_equal(first.predict(X).score, known)


def check_transfer_ignores_batch_mates(make: ModelFactory) -> None:
    """A row's prediction is the same alone and in a batch, zero-shot, adapted and proposing."""
    X, y, tasks = contract_rows()
    model = make().fit(X, y, tasks)
    for predictor in _predictors(model):
        together = predictor.predict(X).score
        alone = np.concatenate([predictor.predict(row[None]).score for row in X[:8]])
        np.testing.assert_allclose(alone, together[:8], rtol=1e-8, atol=1e-9)


def check_transfer_fit_forgets(make: ModelFactory) -> None:
    """A second fit leaves nothing of the first."""
    first, second = contract_rows(1), contract_rows(2)
    twice, once = make().fit(*first).fit(*second), make().fit(*second)
    _assert_same_adapted(twice, once, second[0])


def check_transfer_accepts_failures(make: ModelFactory) -> None:
    """Measurements that all failed, and some that did, are no errors."""
    X, y, tasks = contract_rows()
    model = make().fit(X, y, tasks)
    for latencies in (np.full(4, np.inf), np.array([1e-5, np.inf, 2e-5, np.inf])):
        assert np.isfinite(model.adapt(X[:4], latencies).predict(X).score).all()


def check_refuses_bad_samples(make: ModelFactory) -> None:
    """No measurement, shapes that disagree, and latencies that are none raise ValueError."""
    X, y, tasks = contract_rows()
    model = make().fit(X, y, tasks)
    bad = (np.ones(0), np.ones(3), np.array([1.0, -1.0]), np.array([1.0, np.nan]))
    for latencies in bad:
        rows = X[: 0 if latencies.size == 0 else 2]
        try:
            model.adapt(rows, latencies)
        except ValueError:
            continue
        raise AssertionError(f"ValueError must be raised for {len(rows)} rows and {latencies}")


def check_transfer_state_round_trips(make: ModelFactory) -> None:
    """Another model with the same settings takes over the state, if the model can be stored at all."""
    X, y, tasks = contract_rows()
    model, other = make().fit(X, y, tasks), make()
    if isinstance(model, StorableModel) and isinstance(other, StorableModel):
        _assert_same_adapted(model, other.load_state(model.state()), X)


TRANSFER_CHECKS = (
    check_predicts_for_each_row,
    check_adapting_leaves_the_model_as_it_is,
    check_transfer_ignores_batch_mates,
    check_transfer_fit_forgets,
    check_transfer_accepts_failures,
    check_refuses_bad_samples,
    check_transfer_state_round_trips,
)
"""What each transfer model must do: functions that take a factory of it."""


def _measured() -> tuple[FloatArray, FloatArray]:
    """Five measured candidates of one task."""
    X, y, _ = contract_rows()
    ran = np.flatnonzero(np.isfinite(y))[:5]
    return X[ran], y[ran]


def _predictors(model: TransferModel) -> tuple[Predictor, ...]:
    """All that a fitted model predicts with, before and after measurements."""
    seen, latencies = _measured()
    return (
        model,
        model.adapt(seen, latencies),
        model.propose(seen[:0], latencies[:0]),
        model.propose(seen, latencies),
    )


def _check_latencies(prediction: Prediction, rows: int) -> None:
    if prediction.latency_s is None:
        assert prediction.low_s is None, "an interval needs a latency"
        return
    assert prediction.latency_s.shape == (rows,)
    assert (prediction.latency_s > 0).all()
    if prediction.low_s is not None and prediction.high_s is not None:
        assert (prediction.low_s <= prediction.latency_s).all()
        assert (prediction.latency_s <= prediction.high_s).all()


def _assert_same_adapted(a: TransferModel, b: TransferModel, X: FloatArray) -> None:
    np.testing.assert_array_equal(a.predict(X).score, b.predict(X).score)
    first, second = (model.adapt(*_measured()).predict(X).score for model in (a, b))
    np.testing.assert_array_equal(first, second)
