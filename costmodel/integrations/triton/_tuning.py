"""One question being answered: which config runs a kernel best on one key and platform."""

import math
import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from time import sleep
from traceback import walk_tb
from typing import TYPE_CHECKING, Any

import numpy as np
from triton.runtime.errors import OutOfResources

from costmodel.errors import CostModelError
from costmodel.failures import last_line
from costmodel.integrations.triton._platform import still_works
from costmodel.integrations.triton._shortlist import Advice, Adviser, Reader
from costmodel.integrations.triton._timings import KernelTimings
from costmodel.records._candidate import Candidate
from costmodel.records._measurement import KernelResources, Measurement, Outcome

if TYPE_CHECKING:
    from costmodel.transfer._read_ranker import ExpectedTime

# Quantiles of single runs that a timer is asked for, as Triton does; configs are compared by the first.
QUANTILES = (0.5, 0.2, 0.8)
_PER_SECOND = 1e3  # timers tell milliseconds
# A config that failed in passing is tried so often, last of all and after a pause each time.
_ATTEMPTS, _PAUSE_S = 3, 0.1
_COMPILER = ("triton.compiler.compiler", "compile")
_SAMPLE = 3  # configs that are timed again where timings of elsewhere are checked

# Runs a kernel with a config many times and tells QUANTILES of its milliseconds, and what its compiler gave
# it; raises what that raises.
Timer = Callable[[Any], tuple[Sequence[float], tuple[KernelResources, ...]]]


# Compiles kernels with configs, and tells of each how that ended its process, or nothing where it did not.
Compiler = Callable[[Sequence[Any]], Sequence[str]]


class BrokenContextError(CostModelError):
    """A config made the GPU unusable for the process."""


@dataclass
class Tuning:
    """The configs of a kernel on one key and platform, and what is known of them.

    Attributes:
        configs: The ``triton.Config`` that may be taken.
        candidates: The same in words of the store.
        timings: What is known of them, and is added to it.
        adviser: Orders the configs.
        wanted: How many configs are to be timed before the best of them is the answer.
        read: Tells what each config does; dropped once it has, as it holds the arguments of a call.
        first: Position of a config that is timed before the most promising ones.
    """

    configs: Sequence[Any]
    candidates: Sequence[Candidate]
    timings: KernelTimings
    adviser: Adviser
    wanted: int
    read: Reader | None = None
    first: int | None = None
    _compiled: set[int] = field(default_factory=set)
    _passing: defaultdict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    @cached_property
    def advice(self) -> Advice:
        """The configs, the most promising first."""
        of_family = self.timings.store.of_family(self.candidates[0].workload.kind)
        first, read = min(self.wanted, len(self.configs)), self.read
        self.read = None
        return self.adviser.advise(self.candidates, self.timings.platform, of_family, first, read)

    @property
    def basis(self) -> str:
        """What the order is based on, in words."""
        return self.advice.basis if "advice" in self.__dict__ else "timings"

    def expected(self) -> dict[Any, "ExpectedTime"]:
        """Tell what each config took or is expected to take; not those of which nothing is known."""
        from costmodel.transfer._read_ranker import expect_times  # takes a moment

        readings = self.advice.readings if "advice" in self.__dict__ else ()
        facts = [None if each.note else each.facts for each in readings] or [None] * len(self.configs)
        known = self.known()
        ran = {name: each.latency_s for name, each in known.items() if each.outcome is Outcome.OK}
        timed_s = np.array([ran.get(each.candidate_id, np.nan) for each in self.candidates])
        told = expect_times(facts, self.timings.platform, timed_s)
        return {config: each for config, each in zip(self.configs, told, strict=True) if each is not None}

    def known(self) -> dict[str, Measurement]:
        """Tell what is known of these configs, by id of the candidate."""
        known = self.timings.known
        ids = [each.candidate_id for each in self.candidates]
        return {name: known[name] for name in ids if name in known}

    def ahead(self) -> list[int]:
        """Return positions of the configs to time next; none where enough are known, or there is no choice.

        What failed in passing comes last, and is given up after a few attempts.
        """
        lacking, known = self.lacking(), self.known()
        if not lacking:
            return []
        left = [
            i
            for i in self.advice.order
            if self.candidates[i].candidate_id not in known and not self._is_given_up(i)
        ]
        left.sort(key=lambda i: (len(self._passing[i]), i != self.first))
        return left[:lacking]

    def lacking(self) -> int:
        """Return how many more configs are to be timed."""
        if len(self.configs) == 1:
            return 0
        known = self.known()
        ran = any(each.outcome is Outcome.OK for each in known.values())
        return max(min(self.wanted, len(self.configs)) - len(known), 0 if ran else 1)

    def next(self, compiler: Compiler) -> int | None:
        """Position of the config to time next, once it is compiled, and with it those that follow it."""
        while (ahead := self.ahead()) and ahead[0] not in self._compiled:
            self._compile(ahead, compiler)
        return ahead[0] if ahead else None

    def launchable(self, choose: Callable[[], int], compiler: Compiler) -> Any:
        """The config that is chosen, once it is compiled; if that fails hard, that which is chosen then."""
        while (position := choose()) not in self._compiled and not self._has_run(position):
            self._compile([position], compiler)
        return self.configs[position]

    def time(self, position: int, timer: Timer) -> None:
        """Time a config, and keep the result, see ``KernelTimings.keep``.

        Raises:
            BrokenContextError: No kernel runs in this process any more.
        """
        if self._passing[position]:
            sleep(_PAUSE_S)
        measurement = self.timed(position, timer)
        is_broken = measurement.outcome is not Outcome.OK and not still_works()
        self._keep(position, measurement, at_once=is_broken)
        if is_broken:
            known = (
                "" if measurement.is_passing else ": this config is now known to fail and is not tried again"
            )
            raise BrokenContextError(
                f"Each config of {measurement.candidate.workload.name} must leave the GPU usable, but "
                f"{measurement.candidate.config.decisions} did not: {measurement.error}. Restart the "
                f"process{known}."
            )

    def timed(self, position: int, timer: Timer) -> Measurement:
        """Time a config now; nothing keeps the result."""
        return self.timings.made(self.candidates[position], *_timed(self.configs[position], timer))

    def best(self) -> int:
        """Return the position of the fastest config that is known; of the most promising one where none is.

        Raises:
            CostModelError: All of them failed.
        """
        known = self.known()
        latency_s = [
            known[each.candidate_id].latency_s if each.candidate_id in known else None
            for each in self.candidates
        ]
        timed = {i: each for i, each in enumerate(latency_s) if each is not None}
        if timed and min(timed.values()) < float("inf"):
            return min(timed, key=timed.__getitem__)
        return self.promising()

    def promising(self) -> int:
        """Return position of the most promising config that is not known to fail, whatever else was timed.

        Raises:
            CostModelError: All of them failed.
        """
        known = self.known()
        errors = [
            self._passing[i][-1] if self._is_given_up(i) else known[each.candidate_id].error
            for i, each in enumerate(self.candidates)
            if self._is_given_up(i) or each.candidate_id in known
        ]
        failed = {name for name, each in known.items() if each.outcome is not Outcome.OK}
        for position in self.advice.order:
            if self.candidates[position].candidate_id not in failed and not self._is_given_up(position):
                return position
        raise CostModelError(
            f"Some config of {self.candidates[0].workload.name} must run on {self.timings.platform.name}, "
            f"but none of {len(errors)} does. Of the first: {errors[0]}"
        )

    def _is_given_up(self, position: int) -> bool:
        return len(self._passing[position]) >= _ATTEMPTS

    def _keep(self, position: int, measurement: Measurement, *, at_once: bool = False) -> None:
        """Keep a measurement, see ``KernelTimings.keep``; a passing failure is only counted."""
        if not measurement.is_passing:
            self.timings.keep([measurement], at_once=at_once)
            return
        self._compiled.discard(position)
        self._passing[position].append(measurement.error)
        if self._is_given_up(position):
            warnings.warn(
                f"{measurement.candidate.config.decisions} of {measurement.candidate.workload.name} could "
                f"not be timed, {_ATTEMPTS} times, for no fault of its own: {measurement.error}. The next "
                "process tries again.",
                RuntimeWarning,
                stacklevel=2,
            )

    def _has_run(self, position: int) -> bool:
        known = self.known().get(self.candidates[position].candidate_id)
        return known is not None and known.outcome is Outcome.OK

    def _compile(self, positions: Sequence[int], compiler: Compiler) -> None:
        """Compile configs, and keep how they ended the compiler's process, if they did."""
        left = [each for each in positions if each not in self._compiled]
        self._compiled.update(left)
        reasons = compiler([self.configs[each] for each in left])
        for position, reason in zip(left, reasons, strict=True):
            if reason:
                made = self.timings.made(self.candidates[position], Outcome.COMPILE_ERROR, (), reason)
                self._keep(position, made)

    def timings_ms(self) -> dict[Any, list[float]]:
        """Milliseconds of each config that is known, as ``triton.autotune`` has them: inf for failures."""
        known = self.known()
        found = [
            (config, known.get(each.candidate_id))
            for config, each in zip(self.configs, self.candidates, strict=True)
        ]
        return {
            config: [each * _PER_SECOND for each in measurement.latencies_s]
            or [float("inf")] * len(QUANTILES)
            for config, measurement in found
            if measurement is not None
        }


def _timed(config: Any, timer: Timer) -> tuple[Outcome, tuple[float, ...], str, tuple[KernelResources, ...]]:
    """Outcome, seconds, reason and resources of a config; whatever it raises costs this config alone."""
    try:
        told, resources = timer(config)
        milliseconds = np.atleast_1d(np.asarray(told, dtype=np.float64))
    except CostModelError:
        raise
    except Exception as error:  # noqa: BLE001 (whatever a config does is an outcome)
        return _outcome_of(error), (), last_line(error), ()
    if not (np.isfinite(milliseconds) & (milliseconds > 0.0)).all():
        return Outcome.LAUNCH_ERROR, (), f"the timer told {milliseconds.tolist()} ms", resources
    if np.median(milliseconds) != milliseconds[0]:  # it told others than those quantiles
        milliseconds = milliseconds[:1]
    return Outcome.OK, tuple((milliseconds / _PER_SECOND).tolist()), "", resources


def _outcome_of(error: Exception) -> Outcome:
    """Tell how a config failed: too large for the device, while it was compiled, or while it ran."""
    if isinstance(error, OutOfResources):
        return Outcome.INVALID_CONFIG
    places = (
        (frame.f_globals.get("__name__"), frame.f_code.co_name) for frame, _ in walk_tb(error.__traceback__)
    )
    return Outcome.COMPILE_ERROR if _COMPILER in places else Outcome.LAUNCH_ERROR


@dataclass(frozen=True)
class TimingCheck:
    """What some configs take now, beside what the store says that they take.

    Attributes:
        ratios: Time now / time in the store, by config; inf where one fails now. The fastest comes first,
            then others in equal steps of rank.
        known: Number of configs that the store has timings of, for this kernel, its key, device, SMs, driver
            and version of Triton. 0: the first call will time.
    """

    ratios: Mapping[Any, float]
    known: int

    def holds(self, within: float = 0.1) -> bool:
        """Whether timings are known, and each that was made again differs by at most this share.

        A factor that all share, as of another clock, leaves the choice of a config as it is.
        """
        limit = math.log1p(within)
        return bool(self.ratios) and all(abs(math.log(each)) <= limit for each in self.ratios.values())


def check_tuning(tuning: Tuning, timer: Timer) -> TimingCheck:
    """Time a sample of the configs that are known to run again; nothing is kept."""
    known = tuning.known()
    latency_s = {
        position: known[candidate.candidate_id].latency_s
        for position, candidate in enumerate(tuning.candidates)
        if candidate.candidate_id in known and known[candidate.candidate_id].outcome is Outcome.OK
    }
    ranked = sorted(latency_s, key=latency_s.__getitem__)
    count = min(_SAMPLE, len(ranked))
    sample = dict.fromkeys(ranked[round(i * (len(ranked) - 1) / max(1, count - 1))] for i in range(count))
    ratios = {
        tuning.configs[position]: tuning.timed(position, timer).latency_s / latency_s[position]
        for position in sample
    }
    return TimingCheck(ratios, len(known))
