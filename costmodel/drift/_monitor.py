"""Tells since when measured times have drifted, and by how much."""

from collections import deque
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray
from costmodel.drift._evidence import LOG_DRIFTS, Surprise
from costmodel.drift._levels import Levels

_ONSETS = 512  # records back that a drift may have begun
_SETTLING = 3  # repeats after which it is clear whether there is a drift
_EQUAL = 1.0  # log likelihoods that differ by less are as good as equal
# Least spread of a kernel measured twice on one platform; 0.004 to 0.015 on shipped datasets, with outliers.
# A noisy machine shows its own by the last repeats, of which the three that tell a drift are a minority.
_REPEAT_SPREAD, _REPEATS_KEPT, _REPEATS_FEW = 0.02, 32, 7


@dataclass(frozen=True)
class Drift:
    """Since some record all latencies are another multiple of what they would have been.

    Attributes:
        ratio: Latencies since then over those that the same kernels had before.
        since: Number of the first record that is taken to have drifted.
    """

    ratio: float
    since: int


class DriftMonitor:
    """Watches measured latencies beside predicted ones, and beside earlier ones of the same kernels.

    A drift is one factor on all latencies since some record: other clocks, another driver, a neighbour. Each
    record may be the first that drifted. For each such onset the likelihood ratios of all records since are
    multiplied, averaged over factors of 1.08 to 2.5 up and down, and the products are added up over onsets,
    which is a Shiryaev-Roberts statistic.

    **Predictions** raise a suspicion. A new kernel says by how much its measured latency is off its predicted
    one, relative to the running level and spread of its task: what a model is off by on the whole task is no
    drift, and which task comes next does not matter. They prove nothing: what a search proposes, and what the
    model knows by then, changes too.

    **Repeats** decide. A kernel that is measured again is only off by noise, as long as nothing drifts: the
    mean of their statistic after n records is then at most n, so that it exceeds ``run_length`` within n
    records with a probability of at most ``n / run_length`` (Shin, Ramdas and Rinaldo, "E-detectors",
    arXiv:2203.03532, 2023). One is due (``repeats_due``) after every so many measurements, after one that
    was off by more than noise, and as long as the evidence of both is suspicious: it finds a drift soon, or
    shows that there is none.

    Args:
        run_length: Evidence of repeats at which a drift is told.
        suspicion: Evidence of both from which on kernels should be measured again.
        repeat_every: Measurements after which one kernel should be, without any suspicion.

    Attributes:
        records: How many were added.

    Raises:
        ValueError: These are out of range.

    Example:
        >>> monitor = DriftMonitor()
        >>> for _ in range(20):
        ...     number = monitor.add("task", log_ratio=0.5)  # each 1.6x as slow as predicted
        >>> monitor.repeats_due, monitor.drift
        (1, None)
        >>> for number in (3, 5, 8):
        ...     monitor.repeat(number, log_ratio=0.26)  # and now 1.3x as slow as before
        >>> round(monitor.drift.ratio, 2)
        1.3
    """

    def __init__(self, *, run_length: float = 1e5, suspicion: float = 1e2, repeat_every: int = 20) -> None:
        if not 1.0 < suspicion <= run_length or repeat_every < 1:
            raise ValueError(
                "1 < suspicion <= run_length and repeat_every >= 1 must hold, "
                f"but got {suspicion}, {run_length} and {repeat_every}"
            )
        self.run_length = run_length
        self.suspicion = suspicion
        self.repeat_every = repeat_every
        self.records = 0
        self._offs: deque[float] = deque(maxlen=_REPEATS_KEPT)
        self.reset()

    def reset(self) -> None:
        """Forget all but how noisy repeats are, as after a drift that was accounted for; numbers go on."""
        self._levels = Levels()
        self._repeats: list[tuple[int, Surprise]] = []
        self._onsets = np.zeros(0)
        self._of_predictions = self._of_repeats = np.zeros((0, LOG_DRIFTS.size))
        self._since_repeat = 0

    def add(self, task: str, log_ratio: float | None = None, *, measurements: int = 1) -> int:
        """Take in a kernel that was measured for the first time.

        Args:
            task: Where the model may be off by a factor of its own, such as a workload on a device.
            log_ratio: Natural log of measured over predicted latency, over several SM budgets the mean: they
                are off together. None where nothing was predicted.
            measurements: How many were made.

        Returns:
            The number of the record, from 0.

        Raises:
            ValueError: The ratio is NaN or infinite.
        """
        _check(log_ratio or 0.0)
        number, self.records = self.records, self.records + 1
        self._since_repeat += measurements
        self._onsets = np.append(self._onsets, number)[-_ONSETS:]
        self._of_predictions, self._of_repeats = (
            np.vstack([evidence, np.zeros(LOG_DRIFTS.size)])[-_ONSETS:]
            for evidence in (self._of_predictions, self._of_repeats)
        )
        surprise = None if log_ratio is None else self._levels.take(number, task, log_ratio)
        if surprise is not None:
            self._of_predictions += surprise.log_likelihood_ratio(self._onsets)
        return number

    def repeat(self, number: int, log_ratio: float) -> None:
        """Take in that a kernel was measured again.

        Args:
            number: The record of its first measurement.
            log_ratio: Natural log of the new latency over the first.

        Raises:
            ValueError: There is no such record, or the ratio is NaN or infinite.
        """
        _check(log_ratio)
        if not 0 <= number < self.records:
            raise ValueError(f"number must be one of {self.records} records, but got {number}")
        self._since_repeat = 0
        surprise = Surprise(log_ratio, self._repeat_spread(), np.array([float(number)]))
        self._offs.append(abs(log_ratio))
        self._repeats.append((self.records - 1, surprise))
        self._of_repeats += surprise.log_likelihood_ratio(self._onsets)

    @property
    def repeats_due(self) -> int:
        """How many kernels to measure again now: as many as are overdue, or as can settle a suspicion."""
        suspicious = (
            bool(self._repeats) and self._repeats[-1][1].is_large
        ) or self.evidence >= self.suspicion
        return max(self._since_repeat // self.repeat_every, _SETTLING if suspicious else 0)

    @property
    def evidence(self) -> float:
        """The statistic of predictions and repeats together."""
        return _evidence(self._of_predictions + self._of_repeats)

    @property
    def drift(self) -> Drift | None:
        """The drift; None as long as the evidence of repeats does not suffice."""
        if _evidence(self._of_repeats) < self.run_length:
            return None
        by_repeats = self._of_repeats.max(axis=1)
        likely = (self._of_predictions + self._of_repeats).max(axis=1)
        # Repeats tell an onset up to the kernels between two of them, predictions which of these.
        likely[by_repeats < by_repeats.max() - _EQUAL] = -np.inf
        since = float(self._onsets[int(likely.argmax())])
        return Drift(self._ratio(since), int(since))

    def _repeat_spread(self) -> float:
        """Scale of the last repeats: 1.4826 times the median of how far they were off, as of a normal."""
        if len(self._offs) < _REPEATS_FEW:
            return _REPEAT_SPREAD
        return max(_REPEAT_SPREAD, 1.4826 * float(np.median(self._offs)))

    def _ratio(self, onset: float) -> float:
        """The median ratio of the repeats across the onset."""
        across = [
            surprise.value
            for number, surprise in self._repeats
            if number >= onset and surprise.against[0] < onset
        ]
        return float(np.exp(np.median(across)))


def _evidence(log_likelihood_ratio: FloatArray) -> float:
    """Sum over onsets of the mean over drifts."""
    return float(np.exp(np.minimum(log_likelihood_ratio, 100.0)).mean(axis=1).sum())


def _check(log_ratio: float) -> None:
    if not np.isfinite(log_ratio):
        raise ValueError(f"log_ratio must be finite, but got {log_ratio}")
