"""Kernels side by side, in real threads, with stopwatches that write down when they ran."""

import math
import threading
import time
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
from msgspec.structs import replace

from costmodel.collector import Timing
from costmodel.collector.device._co_run import time_side_by_side
from costmodel.collector.device._pace import Pace
from costmodel.collector.device._timing import Timed
from costmodel.records._measurement import DeviceState, Outcome

pytestmark = pytest.mark.white_box

TIMING = Timing(repeats=3, most_repeats=3, precision=1.0, repeat_s=1e-3, attempts=1)
STATE = DeviceState(clock_mhz=1980.0)


class Device:
    """Makes stopwatches for its lanes; a module is the seconds that each of its repeats takes."""

    def __init__(self, failing: str = "") -> None:
        self.failing = failing
        self.failed = threading.Event()
        self.made: list[tuple[float, int, float]] = []  # when, lane, module
        self.ran: list[tuple[float, float, int, float, int]] = []  # from, to, lane, module, runs
        self.closed: Counter[int] = Counter()
        self.threads: dict[int, set[int]] = {}

    def lane(self, position: int, module: float) -> "Watch":
        self.made.append((time.perf_counter(), position, module))
        if self.failing == "make" and position == 1:
            raise RuntimeError("lane 1 is broken")
        return Watch(self, position, module)

    def lanes(self, count: int) -> list[partial["Watch"]]:
        return [partial(self.lane, position) for position in range(count)]


class Watch:
    """Sleeps, and says that a run takes 10 us."""

    def __init__(self, device: Device, lane: int, module: float) -> None:
        self._device, self._lane, self._module = device, lane, module

    def time(self, runs: int) -> float:
        self._device.threads.setdefault(self._lane, set()).add(threading.get_ident())
        begin = time.perf_counter()
        time.sleep(self._module)
        self._device.ran.append((begin, time.perf_counter(), self._lane, self._module, runs))
        if self._device.failing == "time" and runs > 1:
            self._fail_or_wait()
        return 1e-5

    def _fail_or_wait(self) -> None:
        """Lane 1 fails while the others have something left to measure."""
        if self._lane == 1:
            self._device.failed.set()
            raise RuntimeError("lane 1 is broken")
        assert self._device.failed.wait(600)

    def close(self) -> None:
        self._device.closed[self._lane] += 1


def measure(device: Device, seconds: Sequence[float], lanes: int) -> dict[str, Timed]:
    modules = {f"k{i}": s for i, s in enumerate(seconds)}
    return time_side_by_side(modules, device.lanes(lanes), TIMING, Pace(lambda: STATE))


def spans(device: Device) -> list[tuple[float, float, int, float]]:
    """What was on each lane from when to when, at most: since the last run of the one before."""
    found = []
    for when, lane, module in device.made:
        earlier = [to for _, to, other, *_ in device.ran if other == lane and to <= when]
        later = [t for t, other, _ in device.made if other == lane and t > when]
        found.append((max(earlier, default=-math.inf), min(later, default=math.inf), lane, module))
    return found


# All different, so that a module tells which kernel it is.
KERNELS = [0.002, 0.005, 0.003, 0.011, 0.0025, 0.007, 0.004, 0.0015, 0.006]


@pytest.mark.parametrize("lanes", [2, 3, 4])
def test_each_kernel_is_measured_once_and_knows_its_co_runners(lanes: int) -> None:
    device = Device()
    found = measure(device, KERNELS, lanes)
    names = {module: f"k{i}" for i, module in enumerate(KERNELS)}
    assert found.keys() == set(names.values())
    assert len(device.made) == len(KERNELS)
    for timed in found.values():
        alone = replace(timed, co_runners=())
        assert alone == Timed(Outcome.OK, (1e-5,) * 3, 100, STATE, STATE, 1)
    measured = Counter(module for *_, module, runs in device.ran if runs == 100)
    assert all(measured[module] >= 3 for module in KERNELS)
    everything = spans(device)
    for begin, end, lane, module in everything:
        # What surely ran while this kernel was measured, and what was on another lane at all.
        counted = [r for r in device.ran if r[2:4] == (lane, module) and r[4] == 100][:3]
        first, last = counted[0][0], counted[-1][1]
        sure = {names[m] for b, e, other, m, _ in device.ran if other != lane and b < last and e > first}
        possible = {names[m] for b, e, other, m in everything if other != lane and b < end and e > begin}
        co_runners = set(found[names[module]].co_runners)
        assert sure <= co_runners <= possible
        assert co_runners


class Waiting(Watch):
    """Each repeat waits until some other lanes have run a few times more."""

    def __init__(self, device: Device, others: Sequence[int], times: int, lane: int, module: float) -> None:
        super().__init__(device, lane, module)
        self._others, self._times = others, times

    def time(self, runs: int) -> float:
        wanted = [self._count(lane) + self._times for lane in self._others]
        deadline = time.monotonic() + 600
        while any(self._count(lane) < enough for lane, enough in zip(self._others, wanted, strict=True)):
            assert time.monotonic() < deadline, "another lane has stopped"
            time.sleep(0.001)
        return super().time(runs)

    def _count(self, lane: int) -> int:
        return sum(other == lane for _, _, other, *_ in self._device.ran)


def test_a_lane_without_work_goes_on_until_all_are_done() -> None:
    """Each repeat on lane 1 waits until lane 0, whose kernel is short, has run five times more."""
    device = Device()
    lanes = [partial(device.lane, 0), partial(Waiting, device, [0], 5, 1)]
    found = time_side_by_side({"short": 0.0, "long": 0.001}, lanes, TIMING, Pace(lambda: STATE))
    assert (found["short"].co_runners, found["long"].co_runners) == (("long",), ("short",))
    assert device.closed == Counter({0: 1, 1: 1})


def test_a_lone_kernel_has_itself_as_co_runner() -> None:
    """Each of its repeats waits until two other lanes have run it twice more."""
    device = Device()
    lanes = [partial(Waiting, device, [1, 2], 2, 0), partial(device.lane, 1), partial(device.lane, 2)]
    found = time_side_by_side({"alone": 0.001}, lanes, TIMING, Pace(lambda: STATE))
    assert found["alone"].co_runners == ("alone",)
    assert {lane for *_, lane, _, _ in device.ran} == {0, 1, 2}


def test_each_lane_is_a_thread_and_closes_what_it_made() -> None:
    device = Device()
    measure(device, KERNELS, 3)
    assert all(len(threads) == 1 for threads in device.threads.values())
    assert len(set.union(*device.threads.values())) == 3
    assert device.closed == Counter(lane for _, lane, _ in device.made)


@pytest.mark.parametrize("failing", ["make", "time"])
@pytest.mark.parametrize("kernels", [1, 2, 9])
def test_an_error_on_one_lane_comes_out_and_ends_the_others(failing: str, kernels: int) -> None:
    device = Device(failing)
    with pytest.raises(RuntimeError, match="lane 1 is broken"):
        measure(device, KERNELS[:kernels], 3)
    left = [t for t in threading.enumerate() if t.name.startswith("ThreadPoolExecutor")]
    assert not any(t.ident in threads for t in left for threads in device.threads.values())
    made = Counter(lane for _, lane, _ in device.made)
    assert device.closed == made - Counter({1: failing == "make"})


def test_nothing_to_measure() -> None:
    device = Device()
    assert measure(device, [], 3) == {}
    assert device.made == []
