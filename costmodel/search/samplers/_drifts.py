"""Drifts of measured times, kept with a study: what earlier trials took is brought to the present level."""

from collections.abc import Sequence

import numpy as np
from optuna import Study

from costmodel.arrays import FloatArray
from costmodel.drift._monitor import Drift

# User attribute of a study: ratio and first trial of each drift, in the order in which they were found.
_DRIFTS = "costmodel:drifts"


def drifts_of(study: Study) -> tuple[Drift, ...]:
    """What was found so far; ``since`` is the number of a trial."""
    return tuple(Drift(ratio, since) for ratio, since in study.user_attrs.get(_DRIFTS, ()))


def add_drift(study: Study, drift: Drift) -> None:
    """Keep another one."""
    known = [(each.ratio, each.since) for each in drifts_of(study)]
    study.set_user_attr(_DRIFTS, [*known, (drift.ratio, drift.since)])


def present_factors(study: Study, numbers: Sequence[int]) -> FloatArray:
    """``(m,)`` what latencies of these trials are to be multiplied by, to compare with those measured now."""
    factors = np.ones(len(numbers))
    for drift in drifts_of(study):
        factors[np.asarray(numbers, dtype=np.intp) < drift.since] *= drift.ratio
    return factors
