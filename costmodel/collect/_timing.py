"""How a kernel is timed."""

import math
from collections.abc import Callable
from typing import Any

import msgspec


class Timing(msgspec.Struct, frozen=True):
    """Settings of a measurement.

    Attributes:
        repeats: Numbers kept for each measurement.
        repeat_s: Length that each repeat aims at; it averages over as many back-to-back runs as fit. 1 ms is
            some 200 launches of the shortest kernels and 2,000 ticks of the CUDA event clock (0.5 us).
        most_runs: Most runs that a repeat averages over.
    """

    repeats: int = 5
    repeat_s: float = 1e-3
    most_runs: int = 500


def time_kernel(evaluator: Callable[[int, int], list[float]], timing: Timing) -> tuple[list[float], int]:
    """Time a kernel: two runs to warm it up and learn its length, then the repeats. Inputs stay in the L2 cache.

    Args:
        evaluator: ``evaluator(runs, repeats)`` gives the seconds of one run for each repeat.
        timing: Settings.

    Returns:
        Seconds of one run for each repeat, and the runs that each averages over.
    """
    evaluator(1, 1)
    (length_s,) = evaluator(1, 1)
    runs = max(1, min(timing.most_runs, math.ceil(timing.repeat_s / max(length_s, 1e-9))))
    return evaluator(runs, timing.repeats), runs


def tvm_evaluator(module: Any, device: Any, arguments: list[Any]) -> Callable[[int, int], list[float]]:
    """Evaluator of a loaded TVM module; on CUDA it times by events on the thread's current stream."""

    def evaluate(runs: int, repeats: int) -> list[float]:
        timer = module.time_evaluator("main", device, number=runs, repeat=repeats)
        return [float(seconds) for seconds in timer(*arguments).results]

    return evaluate
