"""Kernels timed beside each other, on streams whose kernels slow each other down by known factors."""

from collections.abc import Mapping

import pytest
from fake_streams import FakeStreams, call

from costmodel.collector.device._neighbours import Lane, NeighbourTimer

pytestmark = pytest.mark.white_box

WINDOW_S = 4e-3


def lanes_and_timer(
    alone_s: Mapping[int, float], slowdown: Mapping[int, float], late_holds: int = 0
) -> tuple[FakeStreams, list[Lane], NeighbourTimer]:
    driver = FakeStreams(
        lambda stream, others: alone_s[stream] * (slowdown[stream] if others else 1.0), late_holds
    )
    timer = NeighbourTimer(driver, call, driver.hold)
    lanes = [Lane(driver, call, stream, driver.launch) for stream in alone_s]
    for lane in lanes:
        timer.prepare(lane)
    return driver, lanes, timer


@pytest.mark.parametrize(
    ("alone_s", "slowdown"),
    [
        ({1: 5e-6, 2: 7e-6}, {1: 1.0, 2: 1.0}),
        ({1: 5e-6, 2: 1e-3}, {1: 1.5, 2: 1.1}),
        ({1: 1e-3, 2: 5e-6}, {1: 3.9, 2: 1.0}),
        ({1: 2e-5, 2: 3e-5}, {1: 12.0, 2: 1.0}),
        ({1: 2e-6, 2: 2e-6, 3: 4e-4}, {1: 1.2, 2: 1.4, 3: 1.8}),
    ],
)
def test_each_takes_its_slowdown_times_as_long_beside_others(alone_s, slowdown) -> None:
    _, lanes, timer = lanes_and_timer(alone_s, slowdown)
    alone = [timer.time([lane], WINDOW_S)[0] for lane in lanes]
    beside = timer.time(lanes, WINDOW_S)
    assert alone == pytest.approx(list(alone_s.values()))
    assert beside == pytest.approx([alone_s[stream] * slowdown[stream] for stream in alone_s])


def test_the_first_graph_of_a_lane_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """In it kernels take five times as long, as what they read is not in the cache yet."""
    driver, lanes, timer = lanes_and_timer({1: 1e-5, 2: 1e-5}, {1: 2.0, 2: 2.0})
    runs = {1: 0, 2: 0}

    def cold_at_first(stream: int, others: frozenset[int]) -> float:
        runs[stream] += 1
        return 1e-4 if runs[stream] <= lanes[0].graph.runs else 2e-5

    monkeypatch.setattr(driver, "_beside", cold_at_first)
    assert timer.time(lanes, WINDOW_S) == pytest.approx([2e-5, 2e-5])


def test_all_lanes_start_at_once() -> None:
    """A lane that started while another is held would run without it, and end all that it has before."""
    driver, lanes, timer = lanes_and_timer({1: 1e-5, 2: 1e-5}, {1: 2.0, 2: 2.0}, late_holds=40)
    timer.time(lanes, WINDOW_S)
    starts = [time for event, time in driver.times.items() if time == min(driver.times.values())]
    assert len(starts) == 3  # what all wait for, and the start of each


def test_a_graph_fills_some_time_and_holds_no_more_runs_than_are_launched_at_once() -> None:
    _, lanes, _ = lanes_and_timer({1: 1e-6, 2: 5e-5, 3: 2e-3}, {1: 1, 2: 1, 3: 1})
    assert [lane.graph.runs for lane in lanes] == [100, 8, 1]


def test_lanes_are_held_until_the_host_is_fast_enough() -> None:
    _, lanes, timer = lanes_and_timer({1: 1e-5, 2: 1e-5}, {1: 2.0, 2: 2.0}, late_holds=11)
    assert timer.time(lanes, WINDOW_S) == pytest.approx([2e-5, 2e-5])
    assert timer._holds == 16


def test_one_that_stands_still_beside_another_is_told() -> None:
    _, lanes, timer = lanes_and_timer({1: 1e-5, 2: 1e-5}, {1: 1e6, 2: 1.0})
    with pytest.raises(RuntimeError, match="must end two graphs"):
        timer.time(lanes, WINDOW_S)


def test_all_is_freed() -> None:
    driver, lanes, timer = lanes_and_timer({1: 1e-5, 2: 1e-5}, {1: 1.0, 2: 1.0})
    timer.time(lanes, WINDOW_S)
    for each in (*lanes, timer):
        each.graph.close() if isinstance(each, Lane) else each.close()
    assert driver.alive == set()
