"""What a task's log ratios are when nothing drifts: its own level and spread, as they come in."""

from collections import defaultdict, deque

import numpy as np

from costmodel.drift._evidence import Surprise

_MEMORY = 64  # level and spread are those of a task's last log ratios, at most so many
_FIRST = 4  # so many of a task only tell its level
_USUAL, _WEIGHT = 0.4, 8.0  # the spread that is expected before it is known, and as after how many
_NORMAL = 1.4826  # standard deviation of a normal distribution over its median absolute deviation


class Levels:
    """The level of each task: a model is off by a factor of its own on each, and that is no drift.

    Levels and spreads are a median and a median absolute deviation: a few outliers do not move them.
    """

    def __init__(self) -> None:
        self._of_task: dict[str, deque[tuple[int, float]]] = defaultdict(lambda: deque(maxlen=_MEMORY))

    def take(self, number: int, task: str, log_ratio: float) -> Surprise | None:
        """Take in a record, and by how much it surprises; None while too little is known of its task."""
        known = self._of_task[task]
        told = list(known)
        known.append((number, log_ratio))
        if len(told) < _FIRST:
            return None
        numbers, log_ratios = np.array(told).T
        level = float(np.median(log_ratios))
        own = _NORMAL * float(np.median(np.abs(log_ratios - level)))
        count = len(told)
        variance = (_WEIGHT * _USUAL**2 + count * own**2) / (_WEIGHT + count)
        of_level = np.pi / 2.0 * variance / count  # that of a median
        return Surprise(log_ratio - level, float(np.sqrt(variance + of_level)), numbers)
