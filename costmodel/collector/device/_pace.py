"""Whether a device runs at its usual pace, and waiting until it does."""

import time
from collections import deque
from collections.abc import Callable

import numpy as np

from costmodel.records._measurement import DeviceState

# Two measurements at most this far from usual are at most 3 % apart. The clock of an H100 moved in steps of
# 0.8 %; of its readings, 7 % were further from the median than this.
_UNUSUAL = 0.015
# An idle GPU lowers its clock; 2 % is over ten times the median noise between two visits.
_UNSTEADY = 0.02
# Of the time that measuring takes: a fifth of both together. A worker that measures little may wait at first
# all the same: launches late after idling were most of what differed between visits under MPS (up to 9 %).
_WAITING_SHARE = 0.25
# Slow spells of an H100 took 8 s of each minute; it gives some 60 readings a second.
_RECENT = 5000


class Pace:
    """How fast a device is, compared with how fast it has been.

    The clock that a driver names is not always the one that the SMs run at: on an H100 that said 1980 MHz all
    the time, kernels took up to 3 % more or less as the clock that was counted did (slope -1, correlation
    -0.8 over 2,352 kernels measured twice). Launches are late on a GPU that idles, or that runs nothing but
    long kernels: by 0.2 to 0.5 us, which is much to a kernel of 3 us and nothing to one of 300.

    Args:
        read_state: What the device's sensors say now.
        clock: Seconds since some moment.
    """

    def __init__(
        self, read_state: Callable[[], DeviceState], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_state, self._clock = read_state, clock
        self._clocks_mhz: deque[float] = deque(maxlen=_RECENT)
        self._launches_s: deque[float] = deque(maxlen=_RECENT)
        self._usual_mhz = self._usual_launch_s = 0.0
        self._measured_s = self._waited_s = 0.0

    def measure(
        self,
        measurement: Callable[[], None],
        latency_s: float,
        patience_s: float,
        work: Callable[[], None],
    ) -> tuple[DeviceState, DeviceState]:
        """Measure once the pace is usual, or no more time may be spent on waiting for it.

        All waiting takes a fifth of the time at most, after a first spell of the longest wait.

        Args:
            measurement: What to do.
            latency_s: Latency of the shortest kernel that it runs.
            patience_s: Seconds to wait at most.
            work: Keeps the device busy for a while: one that idles does not come back to its pace.

        Returns:
            What the sensors said before and after the measurement.
        """
        before = self._wait(latency_s, patience_s, work)
        start = self._clock()
        measurement()
        self._measured_s += self._clock() - start
        after = self._read_state()
        self._remember(before, after)
        return before, after

    def is_steady(self, before: DeviceState, after: DeviceState, latency_s: float) -> bool:
        """Whether the device kept its usual pace, to a kernel of this latency, and nothing held it down.

        What is unknown counts as steady.
        """
        if before.throttle_reasons or after.throttle_reasons:
            return False
        known = before.clock_mhz and after.clock_mhz
        if known and abs(after.clock_mhz / before.clock_mhz - 1) > _UNSTEADY:
            return False
        return self._is_usual(before, latency_s) and self._is_usual(after, latency_s)

    def _wait(self, latency_s: float, patience_s: float, work: Callable[[], None]) -> DeviceState:
        start = self._clock()
        left_s = min(patience_s, patience_s + _WAITING_SHARE * self._measured_s - self._waited_s)
        while not self._is_usual(state := self._read_state(), latency_s):
            if self._clock() - start >= left_s:
                break
            work()
        self._waited_s += self._clock() - start
        return state

    def _is_usual(self, state: DeviceState, latency_s: float) -> bool:
        """Whether a kernel of this latency takes about as long as it usually would."""
        slower = later = 0.0
        if state.spin_clock_mhz and self._usual_mhz:
            slower = self._usual_mhz / state.spin_clock_mhz - 1
        if state.launch_s and self._usual_launch_s:
            later = (state.launch_s - self._usual_launch_s) / max(latency_s, 1e-9)
        return abs(slower + later) <= _UNUSUAL

    def _remember(self, *states: DeviceState) -> None:
        """Clocks vary both ways, so that their median is usual; launches are late or not."""
        self._clocks_mhz.extend(state.spin_clock_mhz for state in states if state.spin_clock_mhz)
        self._launches_s.extend(state.launch_s for state in states if state.launch_s)
        if self._clocks_mhz:
            self._usual_mhz = float(np.median(self._clocks_mhz))
        if self._launches_s:
            self._usual_launch_s = float(np.quantile(self._launches_s, 0.05))
