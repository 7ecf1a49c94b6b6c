"""Choose the kernels that a search measures again, and detect drift of all latencies."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import optuna

from costmodel.records._candidate import Config
from costmodel.search._drift_monitor import Drift, DriftMonitor
from costmodel.search.samplers._history import add_drift, chosen_params, drifts_of, latencies_of
from costmodel.search.samplers._model import PREDICTED_LATENCY
from costmodel.search.spaces._base import SearchSpace

_FEWEST = 3  # kernels to choose from


@dataclass(frozen=True)
class _Measured:
    """A trial of this process, and what it took on the most SMs."""

    number: int
    latency_s: float


class DriftWatch:
    """Watches the trials that this process measures for a study, and says which kernels to measure again.

    A drift that is found is kept with the study: from then on all who use it take the latencies of earlier
    trials times its ratio.

    Args:
        study: The study.
        space: What it searches.
        monitor: Tells when to measure again, and what follows.

    Example:
        >>> watch = DriftWatch(study, space)  # doctest: +SKIP
        >>> study.tell(trial, latency_s)  # doctest: +SKIP
        >>> watch.told(trial.number)  # doctest: +SKIP
        >>> for number, config in watch.to_repeat().items():  # doctest: +SKIP
        ...     watch.repeated(number, measure(config))
    """

    def __init__(self, study: optuna.Study, space: SearchSpace, monitor: DriftMonitor | None = None) -> None:
        self._study, self._space = study, space
        self._monitor = monitor or DriftMonitor()
        self._measured: list[_Measured] = []
        self._place_of: dict[int, int] = {}
        self._begin_anew()

    def told(self, number: int) -> None:
        """Take in the trial with this number, which was measured here, with what was predicted of it."""
        if drifts_of(self._study) != self._accounted:  # another process found one
            self._begin_anew()
        trial = self._study.get_trials(deepcopy=False)[number]
        latency_s = latencies_of(trial, len(self._space.platforms))
        off = np.log(latency_s) - np.log(trial.system_attrs.get(PREDICTED_LATENCY, np.nan))
        off = off[np.isfinite(off)]
        ratio = float(off.mean()) if off.size else None
        self._place_of[number] = self._monitor.add(self._space.space_id, ratio, measurements=latency_s.size)
        self._measured.append(_Measured(number, float(latency_s[-1])))

    def to_repeat(self) -> dict[int, Config]:
        """Kernels to measure again now, on the most SMs, by the number of their trial; none if none is due.

        They ran before the last repeat, as what came after it may have drifted itself; before the first, they
        are of the older half. Those that were repeated least come first, and of these the fastest. As long as
        there are few, none is repeated: one kernel whose times vary must not decide alone.
        """
        half = (self._start + len(self._measured) + 1) // 2
        undoubted = self._measured[self._start : self._checked or half]
        ran = [each for each in undoubted if np.isfinite(each.latency_s)]
        due = self._monitor.repeats_due
        if len(ran) < _FEWEST or not due:
            return {}
        ran.sort(key=lambda each: (self._repeats[each.number], each.latency_s))
        trials = self._study.get_trials(deepcopy=False)
        return {each.number: self._space.config(chosen_params(trials[each.number])) for each in ran[:due]}

    def repeated(self, number: int, latency_s: float) -> None:
        """Take in what a kernel took when it was measured again; inf for a failure, which tells nothing."""
        self._repeats[number] += 1
        self._checked = len(self._measured)
        place = self._place_of[number]
        if np.isfinite(latency_s):
            self._monitor.repeat(place, float(np.log(latency_s / self._measured[place].latency_s)))
        if drift := self._monitor.drift:
            add_drift(self._study, Drift(drift.ratio, self._measured[drift.since].number))
            self._begin_anew()

    @property
    def drifts(self) -> tuple[Drift, ...]:
        """What was found of this study so far; ``since`` is the number of a trial."""
        return drifts_of(self._study)

    def _begin_anew(self) -> None:
        self._monitor.reset()
        self._accounted = drifts_of(self._study)
        self._start, self._checked = len(self._measured), 0
        self._repeats: Counter[int] = Counter()
