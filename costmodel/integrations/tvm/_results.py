"""Meaning of MetaSchedule's run times."""

from collections.abc import Sequence
from typing import Any

import numpy as np

# MetaSchedule writes 1e10 s into its databases for a kernel that failed, and takes more than this for none.
_FAILED_S = 1e9


def latency_of(run_secs: Sequence[Any] | None) -> float:
    """Median of the run times in seconds; inf for a candidate that failed."""
    seconds = [float(second) for second in run_secs or ()]
    latency_s = float(np.median(seconds)) if seconds else np.inf
    return latency_s if 0.0 < latency_s < _FAILED_S else np.inf
