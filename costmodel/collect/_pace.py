"""Whether a device runs at its usual pace, and waiting until it does."""

import math
import time
from collections.abc import Callable

from costmodel.records import DeviceState

# A step of an H100's clock is 0.8 %; what is slower by more than that is no rounding.
_SLOWER = 0.01
# Where launches were late on an H200, they were by 0.17 us of 1 us.
_LATER = 0.05
# An idle GPU lowers its clock; 2 % is over ten times the median noise between two visits.
_UNSTEADY = 0.02
_MOST_WAITING = 0.2


class Pace:
    """How fast a device is, compared with how fast it has been.

    The clock that a driver names is not always the one that the SMs run at: on an H100 that said 1980 MHz all
    the time, kernels were 1 to 3 % slower for eight seconds of every minute.

    Args:
        read_state: What the device's sensors say now.
        clock: Seconds since some moment.
    """

    def __init__(
        self, read_state: Callable[[], DeviceState], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read_state, self._clock = read_state, clock
        self._clock_mhz, self._launch_s = 0.0, math.inf
        self._opened, self._waited_s = clock(), 0.0

    def read(self) -> DeviceState:
        """What the sensors say now."""
        state = self._read_state()
        self._clock_mhz = max(self._clock_mhz, state.spin_clock_mhz)
        self._launch_s = min(self._launch_s, state.launch_s or math.inf)
        return state

    def wait(self, patience_s: float, work: Callable[[], object]) -> DeviceState:
        """What the sensors say once the pace is usual.

        A pace that lasts longer than the patience is the usual one from then on. So is one for which no time
        is left: all waiting takes a fifth of the time at most.

        Args:
            patience_s: Seconds to wait at most.
            work: Keeps the device busy for a while: one that idles does not come back to its pace.
        """
        start = self._clock()
        left_s = min(patience_s, _MOST_WAITING * (start - self._opened) - self._waited_s)
        while not self._is_usual(state := self.read()):
            if self._clock() - start >= left_s:
                self._clock_mhz, self._launch_s = state.spin_clock_mhz, state.launch_s or math.inf
                break
            work()
        self._waited_s += self._clock() - start
        return state

    def is_steady(self, before: DeviceState, after: DeviceState) -> bool:
        """Whether the device kept its usual pace from one state to the other, and nothing held it down.

        What is unknown counts as steady.
        """
        if before.throttle_reasons or after.throttle_reasons:
            return False
        known = before.clock_mhz and after.clock_mhz
        if known and abs(after.clock_mhz / before.clock_mhz - 1) > _UNSTEADY:
            return False
        return self._is_usual(before) and self._is_usual(after)

    def _is_usual(self, state: DeviceState) -> bool:
        clock_mhz = state.spin_clock_mhz or self._clock_mhz
        return (
            clock_mhz >= (1 - _SLOWER) * self._clock_mhz and state.launch_s <= (1 + _LATER) * self._launch_s
        )
