import math

import msgspec
import numpy as np
import pytest
from fake_stopwatch import FakeStopwatch, alternating, sensors
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from costmodel.collector import Timing
from costmodel.collector.device._pace import Pace
from costmodel.collector.device._timing import (
    MOST_RUNS_AT_ONCE,
    Timed,
    half_interval,
    runs_within,
    time_kernels,
)
from costmodel.records._measurement import DeviceState, Measurement, Outcome

pytestmark = pytest.mark.white_box

TIMING = Timing(repeat_s=1e-3, fewest_runs=4)
STEADY = DeviceState(clock_mhz=1980.0)
positive = st.floats(1e-9, 1e3)


def time_one(watch: FakeStopwatch, timing: Timing = TIMING, *states: DeviceState) -> Timed:
    return time_kernels({"a": watch}, timing, Pace(sensors(states or (STEADY,))))["a"]


def test_three_repeats_where_they_agree() -> None:
    found = time_one(FakeStopwatch([1e-5]))
    assert found == Timed(Outcome.OK, (1e-5,) * 3, 100, STEADY, STEADY, attempts=1)


def test_warming_up_is_not_counted_and_chooses_the_runs() -> None:
    """The first run, which is cold, says 100 us; then 2 of them 20 us; 1 ms is 50 of these."""
    watch = FakeStopwatch([1e-4, 2e-5, 1.9e-5])
    assert time_one(watch).latencies_s == (1.9e-5,) * 3
    assert watch.asked == [1, 2, 50, 50, 50]


def test_repeats_go_on_to_the_cap_where_they_disagree() -> None:
    timing = Timing(most_repeats=7, attempts=1)
    found = time_one(alternating(1e-5, 2e-5), timing)
    assert len(found.latencies_s) == 7
    assert set(found.latencies_s) == {1e-5, 2e-5}


def test_repeats_stop_as_soon_as_the_interval_is_narrow() -> None:
    """One odd repeat among equal ones: when the interval is narrow follows from Student's t."""
    timing = Timing(most_repeats=100, attempts=1)
    found = time_one(FakeStopwatch([1e-5, 1e-5, 1.05e-5, 1e-5]), timing)
    assert found.latencies_s[0] == 1.05e-5
    widths = [_interval(found.latencies_s[:n]) for n in range(3, len(found.latencies_s) + 1)]
    assert widths[-1] <= timing.precision < min(widths[:-1])


def _interval(seconds: tuple[float, ...]) -> float:
    low, high = stats.t.interval(0.95, len(seconds) - 1, np.mean(seconds), stats.sem(seconds))
    return float((high - low) / 2 / np.mean(seconds))


@given(st.lists(positive, min_size=2, max_size=20).filter(lambda x: len(set(x)) > 1))
def test_the_interval_is_that_of_students_t(seconds: list[float]) -> None:
    assert half_interval(seconds) == pytest.approx(_interval(tuple(seconds)), rel=1e-6)


def test_the_interval_of_one_number_is_unknown() -> None:
    assert half_interval([]) == half_interval([1.0]) == math.inf
    assert half_interval([1.0, 1.0]) == 0.0


def test_long_kernels_give_one_number() -> None:
    watch = FakeStopwatch([0.07])
    found = time_one(watch)
    assert (found.latencies_s, found.runs_per_repeat, found.attempts) == ((0.07,), 1, 1)
    assert watch.asked == [1]


def test_no_repeat_is_started_after_most_s() -> None:
    """25 ms and 35 ms disagree, but 55 ms are over after two of them."""
    timing = Timing(most_s=0.055, fewest_runs=1)
    assert len(time_one(alternating(0.025, 0.035), timing).latencies_s) == 2


@pytest.mark.parametrize(("length_s", "runs"), [(1e-5, 100), (4e-4, 4), (0.004, 4), (0.009, 2), (0.07, 1)])
def test_a_repeat_averages_over_a_few_runs_where_they_fit(length_s: float, runs: int) -> None:
    """1 ms is filled by few runs of a kernel of 0.4 ms; of 9 ms, two fit into 20 ms."""
    assert time_one(FakeStopwatch([length_s])).runs_per_repeat == runs


def test_one_repeat_of_each_in_turn() -> None:
    log: list[str] = []
    watches = {
        "a": FakeStopwatch([1e-5], log, "a"),
        "b": FakeStopwatch([1e-5, 1e-5, 1e-5, 2e-5, 3e-5], log, "b"),
        "c": FakeStopwatch([0.1], log, "c"),
    }
    timing = Timing(most_repeats=5, attempts=1)
    found = time_kernels(watches, timing, Pace(sensors([STEADY])))
    assert list(found) == ["a", "b", "c"]
    assert log == [*"aa", *"bb", "c", *"ab", *"ab", *"ab", *"b", *"b"]  # warming up, then rounds


def test_only_those_that_stay_wide_apart_are_made_again() -> None:
    wide, narrow = alternating(1e-5, 2e-5), FakeStopwatch([1e-5])
    timing = Timing(most_repeats=4)
    found = time_kernels({"wide": wide, "narrow": narrow}, timing, Pace(sensors([STEADY])))
    assert (found["wide"].attempts, found["narrow"].attempts) == (2, 1)
    assert len(found["wide"].latencies_s) == 4
    assert len(narrow.asked) == 2 + 3
    assert len(wide.asked) == 2 * (2 + 4)


def test_the_last_attempt_counts() -> None:
    """1, 2, 3, 4 do not agree; then all are 5."""
    watch = FakeStopwatch([1e-5, 1e-5, 1e-5, 2e-5, 3e-5, 4e-5, 5e-5])
    found = time_one(watch, Timing(most_repeats=4))
    assert (found.latencies_s, found.attempts) == ((5e-5,) * 3, 2)


@pytest.mark.parametrize(
    ("before", "after", "attempts"),
    [
        (DeviceState(), DeviceState(), 1),  # unknown
        (STEADY, DeviceState(), 1),
        (STEADY, DeviceState(clock_mhz=1941.0), 1),  # 1.97 %
        (STEADY, DeviceState(clock_mhz=1939.0), 2),  # 2.07 %
        (STEADY, DeviceState(clock_mhz=2020.0), 2),
        (DeviceState(throttle_reasons=("sw_power_cap",)), DeviceState(), 2),
        (DeviceState(), DeviceState(throttle_reasons=("hw_slowdown",)), 2),
    ],
)
def test_a_device_that_is_not_steady_makes_all_again(
    before: DeviceState, after: DeviceState, attempts: int
) -> None:
    watches = {name: FakeStopwatch([1e-5]) for name in "ab"}
    found = time_kernels(watches, TIMING, Pace(sensors([before, after, STEADY])))
    for repeats in found.values():
        assert repeats.attempts == attempts
        assert (repeats.before, repeats.after) == ((before, after) if attempts == 1 else (STEADY, STEADY))


def test_a_device_that_never_gets_steady_is_given_up() -> None:
    throttled = DeviceState(throttle_reasons=("sw_power_cap",))
    found = time_one(FakeStopwatch([1e-5]), Timing(attempts=3), throttled)
    assert (found.attempts, found.after) == (3, throttled)


def test_nothing_to_time() -> None:
    assert time_kernels({}, TIMING, Pace(sensors([STEADY]))) == {}


@given(total_s=st.floats(1e-7, 10.0), length_s=st.floats(0.0, 100.0), most=st.integers(1, 5000))
@example(total_s=1e-3, length_s=0.0, most=500)
@example(total_s=1e-3, length_s=9.9e-6, most=500)  # 102 runs: two graphs of 51
def test_runs_are_equal_batches_that_fill_the_time(total_s: float, length_s: float, most: int) -> None:
    runs = runs_within(total_s, length_s, Timing(most_runs=most))
    batches = math.ceil(runs / MOST_RUNS_AT_ONCE)
    assert runs % batches == 0
    wanted = min(most, max(1, math.ceil(total_s / max(length_s, 1e-9))))
    assert wanted <= runs < wanted + batches


@given(length_s=st.floats(1e-7, 1.0), repeat_s=st.floats(1e-4, 0.1))
def test_every_call_is_for_equal_batches(length_s: float, repeat_s: float) -> None:
    watch = FakeStopwatch([length_s])
    found = time_one(watch, Timing(repeat_s=repeat_s))
    assert watch.asked[-1] == found.runs_per_repeat
    assert all(runs % math.ceil(runs / MOST_RUNS_AT_ONCE) == 0 for runs in watch.asked)
    if found.runs_per_repeat < TIMING.most_runs:
        assert found.runs_per_repeat * length_s >= repeat_s * (1 - 1e-9)


def test_a_timing_has_the_fields_of_a_measurement_with_their_types_and_defaults() -> None:
    recorded = {field.name: field for field in msgspec.structs.fields(Measurement)}
    for field in msgspec.structs.fields(Timed):
        assert (field.type, field.default) == (recorded[field.name].type, recorded[field.name].default)
