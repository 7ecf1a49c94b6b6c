"""A learner whose score tells more of the order than its latency: measurements correct both, apart."""

from typing import Any, ClassVar, Self

import numpy as np
import pytest

from costmodel.arrays import FloatArray, TaskIds
from costmodel.learners import Learner, Prediction
from costmodel.transfer.models._residual import Residual

pytestmark = pytest.mark.white_box


class TwoMinds(Learner):
    """Says a score of the first column, and a latency of the second, both logarithms."""

    orders_apart: ClassVar[bool] = True

    def fit(self, X: FloatArray, y: FloatArray, task_ids: TaskIds) -> Self:
        return self

    def predict(self, X: FloatArray) -> Prediction:
        return Prediction(-X[:, 0], np.exp(X[:, 1]))

    def state(self) -> dict[str, Any]:
        return {}

    def load_state(self, state: dict[str, Any]) -> Self:
        return self


class OneMind(TwoMinds):
    orders_apart = False


def fitted(learner: Learner, X: FloatArray) -> Residual:
    return Residual(learner).fit(X, np.ones(len(X)), np.zeros(len(X)))


@pytest.fixture
def rows() -> FloatArray:
    return np.random.default_rng(0).normal(size=(30, 3))


def test_keeps_the_order_of_the_score_when_a_measurement_tells_the_level(rows: FloatArray) -> None:
    adapted = fitted(TwoMinds(), rows).adapt(rows[:1], np.array([1e-3]))
    far = np.array([[0.0, 5.0, 50.0], [1.0, 4.0, 50.0]])  # unlike what was measured

    said = adapted.predict(far)

    assert said.score[0] - said.score[1] == pytest.approx(1.0, abs=0.3)
    assert said.latency_s is not None
    assert np.log(said.latency_s[0] / said.latency_s[1]) == pytest.approx(1.0, abs=0.3)


def test_takes_the_order_of_the_latency_where_the_score_says_no_more(rows: FloatArray) -> None:
    adapted = fitted(OneMind(), rows).adapt(rows[:1], np.array([1e-3]))
    far = np.array([[0.0, 5.0, 50.0], [1.0, 4.0, 50.0]])

    said = adapted.predict(far)

    assert said.score[0] < said.score[1]


def test_a_slow_measurement_moves_both(rows: FloatArray) -> None:
    model = fitted(TwoMinds(), rows)
    before, slow = model.predict(rows), rows[:2]
    latency_s = before.latency_s
    assert latency_s is not None

    adapted = model.adapt(slow, latency_s[:2] * np.array([1.0, 20.0]))
    after = adapted.predict(rows)

    assert after.latency_s is not None
    assert after.latency_s[1] > 2.0 * latency_s[1]
    assert after.score[0] - after.score[1] > before.score[0] - before.score[1] + 1.0
    assert adapted.std(rows)[0] < adapted.std(rows + 10.0)[0]
