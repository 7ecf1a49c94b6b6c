"""Whether timings that were made elsewhere, such as those of a bundle, hold on the device at hand."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.integrations.triton._tuning import Timer, Tuning
from costmodel.records._measurement import Outcome

_SAMPLE = 3  # configs that are timed again


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
