"""How kernels are timed: interleaved, repeated until the interval is narrow, again where it looks wrong."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Protocol

import msgspec
import numpy as np

from costmodel.collector.device._pace import Pace
from costmodel.records._measurement import DeviceState, Outcome


class Timing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Settings of a measurement.

    The defaults come from 20,000 measurements of an H100 with five repeats each, a tenth of them made twice:
    medians of three repeats agree as well as medians of five between two visits (median 0.16%, 99th
    percentile 1.9% against 1.6%) if their interval is under 1% (91% of the kernels after three repeats, 97%
    after five), and a narrower interval does not bring the visits closer.

    Attributes:
        repeats: Minimum number of repeats of a measurement.
        most_repeats: Maximum number of repeats of a measurement.
        precision: Target precision: repeats go on until half the 95% confidence interval of their mean,
            divided by the mean, is this small.
        repeat_s: Target length of a repeat, which averages over as many back-to-back runs as fit. 0.5 ms is
            about 200 runs of the shortest kernels and 1,000 ticks of the CUDA event clock (0.5 us).
        fewest_runs: Minimum number of runs that a repeat averages over, unless they take ``most_s``. Some
            kernels alternate between two latencies, up to 1.5x apart: with one run per repeat, their medians
            differ by 20% between visits; with an even number of runs they hardly differ.
        most_runs: Maximum number of runs that a repeat averages over.
        most_s: Time in the repeats of one kernel after which no further repeat is started. A run that takes
            longer is the kernel's only one. In a campaign, 3% of the measurements are of kernels that run for
            10 ms or more, which nobody will use; with 60 ms they took 40% of the time.
        attempts: Maximum number of times that a suspicious measurement is made.
        patience_s: Longest wait for a device that does not run at its usual pace. Such periods lasted up to
            eight seconds on an H100 (see ``Pace``).
    """

    repeats: Annotated[int, msgspec.Meta(ge=2)] = 3
    most_repeats: Annotated[int, msgspec.Meta(ge=2)] = 10
    precision: Annotated[float, msgspec.Meta(gt=0.0)] = 0.01
    repeat_s: Annotated[float, msgspec.Meta(gt=0.0, le=10.0)] = 5e-4
    fewest_runs: Annotated[int, msgspec.Meta(ge=1)] = 2
    most_runs: Annotated[int, msgspec.Meta(ge=1)] = 500
    most_s: Annotated[float, msgspec.Meta(gt=0.0)] = 0.02
    attempts: Annotated[int, msgspec.Meta(ge=1)] = 2
    patience_s: Annotated[float, msgspec.Meta(ge=0.0)] = 10.0


# A CUDA graph of 100 runs takes 0.3 ms and more to run and 10 us to launch: launches hide behind it, and the
# gap between two of them (under 2 us) adds less than 1 % to the shortest kernels. Longer graphs take longer
# to make.
MOST_RUNS_AT_ONCE = 100


class Stopwatch(Protocol):
    """Times one kernel."""

    def time(self, runs: int) -> float:
        """Seconds of one run, the mean of ``runs`` back-to-back runs.

        Args:
            runs: A multiple of ``ceil(runs / MOST_RUNS_AT_ONCE)``.
        """
        ...


class Timed(msgspec.Struct, frozen=True):
    """Timing of one kernel on the device, where nobody knows its candidate; fields as in ``Measurement``."""

    outcome: Outcome
    latencies_s: tuple[float, ...] = ()
    runs_per_repeat: int = 0
    before: DeviceState = DeviceState()
    after: DeviceState = DeviceState()
    attempts: int = 1
    co_runners: tuple[str, ...] = ()
    board: str = ""
    error: str = ""


def time_kernels(watches: Mapping[str, Stopwatch], timing: Timing, pace: Pace) -> dict[str, Timed]:
    """Time kernels side by side at the device's usual pace, those that look suspicious once more.

    Suspicious are repeats that stay too wide apart, and those during which the device left its pace or was
    held down. Inputs stay in the L2 cache between runs.

    Args:
        watches: A stopwatch for each kernel.
        timing: Settings.
        pace: The device's.
    """

    def work() -> None:
        for watch in watches.values():
            watch.time(1)

    half_interval((1.0, 1.0))  # loads what it needs here, not between two repeats
    found: dict[str, Timed] = {}
    suspects = list(watches)
    for attempt in range(1, timing.attempts + 1):
        if not suspects:
            break
        seconds = {name: _Seconds(watches[name], timing) for name in suspects}
        kernels = list(seconds.values())
        shortest_s = min(kernel.latency_s for kernel in kernels)
        before, after = pace.measure(partial(_interleave, kernels), shortest_s, timing.patience_s, work)
        for name, known in seconds.items():
            found[name] = Timed(Outcome.OK, tuple(known.seconds), known.runs, before, after, attempt)
        suspects = [
            name
            for name, known in seconds.items()
            if not (known.is_precise and pace.is_steady(before, after, known.latency_s))
        ]
    return found


def _interleave(kernels: "list[_Seconds]") -> None:
    """One repeat of each kernel in turn, so that what drifts meets all alike, until each has enough."""
    while kernels := [kernel for kernel in kernels if not kernel.is_enough]:
        for kernel in kernels:
            kernel.repeat()


class _Seconds:
    """The repeats of one kernel so far.

    Attributes:
        seconds: One number a repeat.
        runs: Runs that each averages over.
        latency_s: About how long one run takes.
    """

    def __init__(self, watch: Stopwatch, timing: Timing) -> None:
        """Warm the kernel up.

        One run says about how long it is; where many fit into a repeat, a few more, together, say it closely
        enough to choose how many.
        """
        self._watch, self._timing = watch, timing
        self.seconds: list[float] = []
        first_s = self.latency_s = watch.time(1)
        if first_s > max(timing.most_s, timing.repeat_s):
            self.runs = 1
            self.seconds.append(first_s)
            return
        few = runs_within(timing.repeat_s / 5, first_s, timing)
        if few > 1:
            self.latency_s = watch.time(few)
        enough = runs_within(timing.repeat_s, self.latency_s, timing)
        fewest = min(timing.fewest_runs, math.floor(timing.most_s / max(first_s, 1e-9)))
        self.runs = max(enough, fewest)

    def repeat(self) -> None:
        self.seconds.append(self._watch.time(self.runs))

    @property
    def is_enough(self) -> bool:
        count, timing = len(self.seconds), self._timing
        return count >= timing.most_repeats or (
            self.is_precise and (count >= timing.repeats or self._took_long)
        )

    @property
    def is_precise(self) -> bool:
        return self._took_long or half_interval(self.seconds) <= self._timing.precision

    @property
    def _took_long(self) -> bool:
        return sum(self.seconds) * self.runs > self._timing.most_s


def runs_within(total_s: float, length_s: float, timing: Timing) -> int:
    """Runs of this length that fill a time, at least one; a multiple of equal batches."""
    runs = max(1, min(timing.most_runs, math.ceil(total_s / max(length_s, 1e-9))))
    batches = math.ceil(runs / MOST_RUNS_AT_ONCE)
    return batches * math.ceil(runs / batches)


def half_interval(seconds: Sequence[float]) -> float:
    """Half the 95 % confidence interval of the mean (Student's t) over the mean; inf for fewer than two."""
    from scipy.special import stdtrit  # takes a while to import, and what never times anything imports this

    n = len(seconds)
    if n < 2:
        return math.inf
    deviation = float(np.std(seconds, ddof=1))
    return float(stdtrit(n - 1, 0.975)) * deviation / math.sqrt(n) / float(np.mean(seconds))
