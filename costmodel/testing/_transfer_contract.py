"""Contract checks for transfer models: every one passes the same.

A test parametrises over the checks::

    @pytest.mark.parametrize("check", TRANSFER_CHECKS)
    def test_my_model_keeps_the_contract(check):
        check(lambda: MyModel())

The rows are those of ``contract_rows``.
"""

from collections.abc import Callable

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.learners._base import Prediction
from costmodel.testing._learner_contract import contract_rows
from costmodel.transfer._base import Predictor, StorableModel, TransferModel

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
    _assert_same(twice, once, second[0])


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
        _assert_same(model, other.load_state(model.state()), X)


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


def _assert_same(a: TransferModel, b: TransferModel, X: FloatArray) -> None:
    np.testing.assert_array_equal(a.predict(X).score, b.predict(X).score)
    first, second = (model.adapt(*_measured()).predict(X).score for model in (a, b))
    np.testing.assert_array_equal(first, second)
