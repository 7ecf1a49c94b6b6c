"""How a kernel is timed."""

import math
from collections.abc import Callable
from typing import Annotated, Any

import msgspec


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a measurement.

    Attributes:
        repeats: Numbers kept for each measurement.
        repeat_s: Length that each repeat aims at; it averages over as many back-to-back runs as fit. 1 ms is
            some 300 runs of the shortest kernels and 2,000 ticks of the CUDA event clock (0.5 us).
        most_runs: Most runs that a repeat averages over.
    """

    repeats: Annotated[int, msgspec.Meta(ge=1)] = 5
    repeat_s: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)] = 1e-3
    most_runs: Annotated[int, msgspec.Meta(ge=1)] = 500


Evaluator = Callable[[int, int], list[float]]


def time_kernel(evaluate: Evaluator, timing: Timing) -> tuple[list[float], int]:
    """Time a kernel. Inputs stay in the L2 cache between runs.

    Two runs warm it up and say about how long it is; a few more, together, say it closely enough to choose
    how many runs make a repeat.

    Args:
        evaluate: ``evaluate(runs, repeats)`` gives the seconds of one run for each repeat.
        timing: Settings.

    Returns:
        Seconds of one run for each repeat, and the runs that each averages over.
    """
    _, first_s = evaluate(1, 2)
    (length_s,) = evaluate(_runs(timing.repeat_s / 5, first_s, timing), 1)
    runs = _runs(timing.repeat_s, length_s, timing)
    return evaluate(runs, timing.repeats), runs


def _runs(total_s: float, length_s: float, timing: Timing) -> int:
    """Runs of this length that fill a time, at least one."""
    return max(1, min(timing.most_runs, math.ceil(total_s / max(length_s, 1e-9))))


def tvm_evaluator(module: Any, device: Any, arguments: list[Any]) -> Evaluator:
    """Evaluator of a loaded TVM module by TVM's own timer, which runs it back to back."""

    def evaluate(runs: int, repeats: int) -> list[float]:
        timer = module.time_evaluator("main", device, number=runs, repeat=repeats)
        return [float(seconds) for seconds in timer(*arguments).results]

    return evaluate
