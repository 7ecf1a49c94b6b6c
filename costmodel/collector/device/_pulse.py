"""Measures how fast a GPU's SMs and launches really are."""

from collections.abc import Callable
from functools import partial
from typing import Any

from costmodel.collector.device._graph_timer import GraphStopwatch
from costmodel.collector.device._spin_kernel import SpinKernel

# 50 kernels that spin for 4 us at 2 GHz: 0.2 ms, which the event clock (0.5 us) tells to 0.25 %.
_LAUNCHES = 50
_CYCLES = 8000


class Pulse:
    """Two graphs of kernels that do nothing for a known number of cycles.

    Args:
        driver: ``cuda.bindings.driver``.
        call: Gives the value of a driver call, or raises.
        spin: The kernel.
        stream: Handle of a stream that is not the default one.
    """

    def __init__(self, driver: Any, call: Callable[[Any], Any], spin: SpinKernel, stream: int) -> None:
        hold = partial(spin.hold, stream)
        self._empty, self._busy = (
            GraphStopwatch(driver, call, stream, partial(spin.launch, stream, cycles), hold)
            for cycles in (0, _CYCLES)
        )

    def read(self) -> tuple[float, float]:
        """Cycles that an SM counts in a microsecond, and seconds from one launch in a graph to the next.

        Takes 0.5 ms. The cycles are 0, unknown, where the idle launches took longer than the spinning ones:
        something else had the GPU meanwhile.

        Raises:
            RuntimeError: The driver refuses.
        """
        launch_s = self._empty.time(_LAUNCHES)
        spin_s = self._busy.time(_LAUNCHES) - launch_s
        return (_CYCLES / spin_s * 1e-6 if spin_s > 0 else 0.0), launch_s
