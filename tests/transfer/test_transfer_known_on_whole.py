"""A model that is told what kernels take on the whole device."""

import numpy as np
import pytest

from costmodel.arrays import FloatArray
from costmodel.columns import Column
from costmodel.learners import Prediction
from costmodel.learners._scaler import Scaler
from costmodel.learners._training import LOWEST_LOG_SCORE
from costmodel.transfer.models._known_on_whole import KnownOnWhole
from costmodel.transfer.models._residual import Residual

pytestmark = pytest.mark.white_box

COLUMNS = [Column("tile", "1", "config"), Column("sms", "1", "platform", frozenset({"sms"}))]
WHOLE, PART = 132.0, 8.0


class Halves:
    """Says that a tile takes its square root in seconds, and that a part takes four times as long."""

    orders_apart = True

    def predict(self, X: FloatArray) -> Prediction:
        latency_s = np.sqrt(X[:, 0]) * np.where(X[:, 1] == WHOLE, 1.0, 4.0)
        return Prediction(-np.log(latency_s) + 5.0, latency_s)


class Scores(Halves):
    """The same, without seconds."""

    def predict(self, X: FloatArray) -> Prediction:
        return Prediction(super().predict(X).score)


def rows(tiles: list[float], sms: float) -> FloatArray:
    return np.column_stack([tiles, np.full(len(tiles), sms)])


def fitted(learner: Halves) -> Residual:
    model = Residual(learner, deviation=0.3)  # type: ignore[arg-type]
    model.scaler_ = Scaler().fit(np.vstack([rows([1.0, 4.0, 9.0], sms) for sms in (WHOLE, PART)]))
    return model


def known(learner: Halves | None = None, share: float = 0.75) -> KnownOnWhole:
    """Of three tiles 4 and 9 were measured, and 16 failed."""
    X, y = rows([4.0, 9.0, 16.0], WHOLE), np.array([1.0, 12.0, np.inf])
    return KnownOnWhole(fitted(learner or Halves()), COLUMNS, X, y, share=share)


def test_on_the_whole_device_it_says_what_was_measured() -> None:
    told = known().predict(rows([4.0, 9.0], WHOLE))
    np.testing.assert_allclose(told.latency_s, [1.0, 12.0])
    np.testing.assert_allclose(np.diff(told.score), -np.log(12.0))


def test_on_a_part_a_share_of_the_predicted_change_counts() -> None:
    told = known(share=0.5).predict(rows([4.0, 9.0], PART))
    np.testing.assert_allclose(told.latency_s, [2.0, 24.0])
    np.testing.assert_allclose(np.diff(told.score), -np.log(12.0))


def test_what_was_not_measured_there_is_as_the_learner_says_on_the_same_level() -> None:
    X = rows([4.0, 9.0, 25.0], WHOLE)
    own, told = Halves().predict(X), known().predict(X)
    assert told.latency_s is not None
    assert own.latency_s is not None
    assert told.latency_s[2] == own.latency_s[2]
    assert told.score[2] == own.score[2]
    np.testing.assert_allclose(told.score[:2].mean(), own.score[:2].mean())


def test_what_failed_there_comes_last() -> None:
    X = rows([4.0, 9.0, 16.0, 1e6], PART)
    told = known().predict(X)
    assert told.score.argmin() in (2, 3)
    own = Halves().predict(X)
    np.testing.assert_allclose(told.score[2], own.score[2] + LOWEST_LOG_SCORE + 0.25 * np.log(4.0))


def test_measurements_correct_it_and_a_learner_of_scores_is_told_too() -> None:
    X = rows([4.0, 9.0, 25.0], PART)
    for model in (known(), known(Scores())):
        before = model.predict(X).score
        assert before.argmax() == 0
        after = model.adapt(X[:2], np.array([1000.0, 1.0])).predict(X).score
        assert after[0] < after[1]
    assert known(Scores()).predict(X).latency_s is None
