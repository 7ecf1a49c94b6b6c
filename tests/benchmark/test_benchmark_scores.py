"""Scores of answers whose value is known."""

import numpy as np
import pytest

from costmodel.benchmark._pose import pose
from costmodel.benchmark._question import AnswerKey, Posed
from costmodel.benchmark._scores import Judged, judge_answer
from costmodel.learners import Prediction
from costmodel.learners._metrics import expected_score_at_k

pytestmark = pytest.mark.white_box


@pytest.fixture(scope="module")
def parts():
    return pose("budgets")


def test_whoever_knows_the_answers_has_every_point(parts):
    key = parts.key.latency_s
    seconds = np.where(np.isfinite(key), key, 1.0)
    found = judge_answer(parts, Prediction(-key.clip(max=1e9), seconds, seconds * 0.99, seconds * 1.01))
    told = {name: found.value(name) for name in found.terms}
    assert told == pytest.approx(
        {"score_at_1": 1, "score_at_8": 1, "gap_recovered": 1, "latency_error": 0, "coverage": 1}
        | {"log_width": np.log(1.01 / 0.99)}
    )
    assert found.interval("score_at_1") == (1.0, 1.0)


def test_equal_scores_are_a_choice_at_random(parts):
    found = judge_answer(parts, Prediction(np.zeros(len(parts.question.asked))))
    expected = [expected_score_at_k(parts.key.latency_s[at], 1) for at, _, _ in parts.question.asked_tasks()]
    assert found.value("score_at_1") == pytest.approx(np.mean(expected))
    assert np.isnan(found.value("latency_error"))


def test_the_whole_gpus_choice_recovers_nothing(parts):
    found = judge_answer(parts, Prediction(-parts.key.whole_s.clip(max=1e9)))
    assert found.value("gap_recovered") == pytest.approx(0.0, abs=1e-9)


def test_what_was_measured_counts_as_chosen():
    posed = pose("few-16")
    found = judge_answer(posed, Prediction(np.zeros(len(posed.question.asked))))
    best = [
        min(posed.question.latency_s[measured].min(), posed.key.latency_s[at].min())
        / posed.question.latency_s[measured].min()
        for at, _, measured in posed.question.asked_tasks()
    ]
    assert (found.terms["score_at_1"][0] >= np.array(best) - 1e-12).all()


def test_no_harm_is_relative_to_what_learns_from_nothing():
    posed = pose("honest")
    good, bad = -posed.key.latency_s.clip(max=1e9), posed.key.latency_s.clip(max=1e9)
    assert judge_answer(posed, Prediction(good), Prediction(bad)).value("no_harm") == 1.0
    assert judge_answer(posed, Prediction(bad), Prediction(good)).value("no_harm") < 0.9


def test_differences_are_of_the_same_draws():
    few = Judged(np.array(list("aabb")), {"score_at_1": (np.array([0.1, 0.9, 0.2, 0.8]), np.ones(4))})
    more = Judged(few.workloads, {"score_at_1": (few.terms["score_at_1"][0] + 0.05, np.ones(4))})
    assert more.difference(few, "score_at_1") == pytest.approx((0.05, 0.05, 0.05))


def test_seeds_are_averaged_task_by_task():
    runs = [Judged(np.array(["a"]), {"s": (np.array([value]), np.ones(1))}) for value in (0.2, 0.6)]
    assert Judged.mean(runs).value("s") == pytest.approx(0.4)


def test_a_choice_that_fails_scores_nothing(parts):
    places = next(at for at, _, _ in parts.question.asked_tasks())
    latency_s = parts.key.latency_s.copy()
    latency_s[places[0]] = np.inf
    score = np.zeros(len(latency_s))
    score[places[0]] = 1.0
    posed = Posed(parts.question, AnswerKey(latency_s, parts.key.whole_s), {})
    assert judge_answer(posed, Prediction(score)).terms["score_at_1"][0][0] == 0.0
