"""Waiting for a device's usual pace, on scripted sensors and a clock that work moves on."""

import pytest
from fake_stopwatch import sensors

from costmodel.collector.device._pace import Pace
from costmodel.records._measurement import DeviceState

pytestmark = pytest.mark.white_box

USUAL = DeviceState(spin_clock_mhz=1980.0, launch_s=1.00e-6)
SLOWER = DeviceState(spin_clock_mhz=1940.0, launch_s=1.00e-6)
FASTER = DeviceState(spin_clock_mhz=2020.0, launch_s=1.00e-6)
LATER = DeviceState(spin_clock_mhz=1980.0, launch_s=1.17e-6)
UNKNOWN = DeviceState()
SHORT_S, LONG_S = 3e-6, 3e-4


class Bench:
    """A pace that knows some states and has measured for a while; each piece of work takes a second."""

    def __init__(self, *script: DeviceState, known: DeviceState = USUAL, measured_s: float = 1000.0) -> None:
        self.now, self.worked, self.measured = 0.0, 0, 0
        self.pace = Pace(sensors([known, known, *script]), lambda: self.now)
        self.measure(takes_s=measured_s)

    def work(self) -> None:
        self.now += 1.0
        self.worked += 1

    def measure(
        self, latency_s: float = SHORT_S, patience_s: float = 10.0, takes_s: float = 0.0
    ) -> tuple[DeviceState, DeviceState]:
        def measurement() -> None:
            self.now += takes_s
            self.measured += 1

        return self.pace.measure(measurement, latency_s, patience_s, self.work)


@pytest.mark.parametrize("unusual", [SLOWER, FASTER, LATER])
def test_a_spell_is_sat_out_at_work(unusual: DeviceState) -> None:
    bench = Bench(unusual, unusual, unusual, USUAL, LATER)
    assert bench.measure() == (USUAL, LATER)
    assert bench.worked == 3
    assert bench.measured == 2


@pytest.mark.parametrize(
    ("state", "latency_s"),
    [
        (USUAL, SHORT_S),
        (UNKNOWN, SHORT_S),
        (DeviceState(spin_clock_mhz=1965.0, launch_s=1e-6), SHORT_S),  # one step of the clock
        (DeviceState(spin_clock_mhz=1980.0, launch_s=1.04e-6), SHORT_S),
        (LATER, LONG_S),  # what is late by 6 % of a short kernel is by 0.06 % of a long one
    ],
)
def test_what_is_usual_or_unknown_is_not_waited_for(state: DeviceState, latency_s: float) -> None:
    bench = Bench(state)
    assert bench.measure(latency_s)[0] == state
    assert bench.worked == 0


def test_patience_ends_and_the_measurement_is_made() -> None:
    bench = Bench(SLOWER)
    assert bench.measure(patience_s=4.0) == (SLOWER, SLOWER)
    assert bench.worked == 4
    assert bench.measured == 2


def test_what_is_measured_most_of_the_time_is_usual() -> None:
    bench = Bench(SLOWER)
    for _ in range(3):
        bench.measure()
    worked = bench.worked
    assert bench.measure() == (SLOWER, SLOWER)
    assert bench.worked == worked


def test_one_reading_that_is_far_off_is_not_what_is_usual() -> None:
    wild = DeviceState(spin_clock_mhz=2090.0, launch_s=0.8e-6)
    bench = Bench(*[USUAL] * 41, wild, USUAL)
    for _ in range(22):
        bench.measure()
    assert bench.measure() == (USUAL, USUAL)
    assert bench.worked == 0


def test_waiting_takes_a_fifth_of_the_time_at_most_after_a_first_spell() -> None:
    bench = Bench(*[SLOWER, USUAL, USUAL] * 200, measured_s=0.0)
    for _ in range(200):
        bench.measure(takes_s=1.0)
    assert 40 < bench.worked <= 0.2 * bench.now + 11.0  # the last piece of work is finished


def test_idle_time_earns_no_waiting() -> None:
    bench = Bench(*[SLOWER, USUAL, USUAL] * 100, measured_s=0.0)
    for _ in range(50):
        bench.measure(patience_s=4.0)
        bench.now += 1000.0
    assert bench.worked == 4


@pytest.mark.parametrize(
    ("before", "after", "latency_s", "steady"),
    [
        (USUAL, USUAL, SHORT_S, True),
        (UNKNOWN, UNKNOWN, SHORT_S, True),
        (USUAL, UNKNOWN, SHORT_S, True),
        (USUAL, SLOWER, LONG_S, False),
        (FASTER, USUAL, LONG_S, False),
        (LATER, USUAL, SHORT_S, False),
        (LATER, USUAL, LONG_S, True),
    ],
)
def test_steady_is_usual_from_first_to_last(
    before: DeviceState, after: DeviceState, latency_s: float, steady: bool
) -> None:
    assert Bench(USUAL).pace.is_steady(before, after, latency_s) == steady
