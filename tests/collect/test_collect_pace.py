"""Waiting for a device's usual pace, on scripted sensors and a clock that work moves on."""

import pytest
from fake_stopwatch import sensors

from costmodel.collect._pace import Pace
from costmodel.records import DeviceState

USUAL = DeviceState(spin_clock_mhz=1980.0, launch_s=1.00e-6)
SLOWER = DeviceState(spin_clock_mhz=1950.0, launch_s=1.00e-6)
LATER = DeviceState(spin_clock_mhz=1980.0, launch_s=1.17e-6)
UNKNOWN = DeviceState()


class Bench:
    """A pace that has seen some states and is ``age_s`` old; each piece of work takes a second."""

    def __init__(self, *script: DeviceState, seen: DeviceState = USUAL, age_s: float = 1000.0) -> None:
        self.now, self.worked = 0.0, 0
        self.pace = Pace(sensors([seen, *script]), lambda: self.now)
        self.pace.read()
        self.now = age_s

    def work(self) -> None:
        self.now += 1.0
        self.worked += 1

    def wait(self, patience_s: float = 10.0) -> DeviceState:
        return self.pace.wait(patience_s, self.work)


@pytest.mark.parametrize("slow", [SLOWER, LATER])
def test_a_slow_spell_is_sat_out_at_work(slow: DeviceState) -> None:
    bench = Bench(slow, slow, slow, USUAL)
    assert bench.wait() == USUAL
    assert bench.worked == 3


@pytest.mark.parametrize(
    "state",
    [
        USUAL,
        UNKNOWN,
        DeviceState(spin_clock_mhz=1965.0, launch_s=1e-6),  # one step of the clock
        DeviceState(spin_clock_mhz=1980.0, launch_s=1.04e-6),
        DeviceState(spin_clock_mhz=2010.0, launch_s=0.9e-6),
    ],
)
def test_what_is_usual_or_unknown_or_better_is_not_waited_for(state: DeviceState) -> None:
    bench = Bench(state)
    assert bench.wait() == state
    assert bench.worked == 0


def test_what_outlasts_the_patience_becomes_usual() -> None:
    bench = Bench(SLOWER)
    assert bench.wait(4.0) == SLOWER
    assert bench.worked == 4
    assert bench.wait(4.0) == SLOWER
    assert bench.worked == 4


def test_the_best_that_was_seen_counts() -> None:
    bench = Bench(USUAL, SLOWER, USUAL, seen=SLOWER)
    assert bench.wait() == USUAL
    assert bench.wait() == USUAL
    assert bench.worked == 1


def test_waiting_takes_a_fifth_of_the_time_at_most() -> None:
    bench = Bench(*[SLOWER, USUAL] * 100, age_s=10.0)
    for _ in range(100):
        bench.wait()
        bench.now += 1.0
    assert 10 < bench.worked <= 0.2 * bench.now + 1.0  # the last piece of work is finished


def test_a_young_pace_does_not_wait() -> None:
    bench = Bench(SLOWER, age_s=0.0)
    bench.wait()
    assert bench.worked == 0


@pytest.mark.parametrize(
    ("before", "after", "steady"),
    [
        (USUAL, USUAL, True),
        (UNKNOWN, UNKNOWN, True),
        (USUAL, UNKNOWN, True),
        (USUAL, SLOWER, False),
        (LATER, USUAL, False),
    ],
)
def test_steady_is_usual_from_first_to_last(before: DeviceState, after: DeviceState, steady: bool) -> None:
    pace = Bench(USUAL).pace
    assert pace.is_steady(before, after) == steady
