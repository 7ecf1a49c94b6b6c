"""Which task is next: rules on states whose answer is known by hand."""

import pytest

from costmodel.service._schedule import RULES, TaskState

pytestmark = pytest.mark.white_box


def task(weight=1.0, trials=8, best_s=(4.0,), expected_gain=None):
    return TaskState(weight, trials, best_s, expected_gain)


def test_round_robin_takes_the_fewest_trials_and_of_several_the_first():
    assert RULES["round-robin"]([task(trials=8), task(trials=4), task(trials=4)]) == 1


@pytest.mark.parametrize("rule", RULES)
def test_what_has_no_trials_comes_first(rule):
    assert RULES[rule]([task(weight=100.0, expected_gain=1.0), task(trials=0, best_s=())]) == 1


def test_gradient_is_that_of_metaschedule():
    """Of five slices: .2 * (what the last three gained) / 3 + .8 * best / 5, times the weight."""
    falling = task(best_s=(10.0, 9.0, 7.0, 6.0, 5.0))  # .2 * 4 / 3 + .8 * 1 = 1.0667
    steady = task(best_s=(6.6,) * 5)  # 1.056
    assert RULES["gradient"]([steady, falling]) == 1
    assert RULES["gradient"]([task(best_s=(6.7,) * 5), falling]) == 0  # 1.072
    assert RULES["gradient"]([task(weight=1.02, best_s=(6.6,) * 5), falling]) == 0  # 1.0771


def test_expected_gain_is_weighed_by_calls_and_by_the_latency_that_it_is_a_share_of():
    assert RULES["expected-gain"]([task(expected_gain=0.1), task(weight=2.0, expected_gain=0.06)]) == 1
    assert RULES["expected-gain"]([task(expected_gain=0.1), task(best_s=(8.0,), expected_gain=0.04)]) == 0


def test_where_no_model_can_tell_what_was_gained_of_late_stands_for_it():
    falling, steady = task(best_s=(8.0, 7.0, 6.0, 5.0)), task(best_s=(8.0,) * 4)
    assert RULES["expected-gain"]([steady, falling]) == 1
    assert RULES["expected-gain"]([task(expected_gain=0.5), falling]) == 0  # 2 s against 1 s
