"""Detect since when measured latencies have drifted, and by how much."""

from collections import defaultdict, deque
from dataclasses import dataclass

import numpy as np

from costmodel.arrays import FloatArray

# Drifts that are looked for, as factors on latencies, and their inverses.
_FACTORS = np.array([1.08, 1.15, 1.25, 1.4, 1.7, 2.5])
LOG_DRIFTS: FloatArray = np.concatenate([-np.log(_FACTORS)[::-1], np.log(_FACTORS)])
_FREEDOM = 4.0  # of Student's t: now and then a ratio is far off without any drift
_MOST = np.log(100.0)  # one record alone says no more than this: a single outlier is no drift
_LARGE = 3.0  # spreads


@dataclass(frozen=True)
class Surprise:
    """By how much a log latency differs from what earlier records let expect.

    Attributes:
        value: The difference; 0 up to its spread where nothing drifted.
        spread: Its scale.
        against: ``(m,)`` numbers of the records that it is compared with, in increasing order, m >= 1.
    """

    value: float
    spread: float
    against: FloatArray

    @property
    def is_large(self) -> bool:
        """Whether noise alone is hardly so large."""
        return abs(self.value) > _LARGE * self.spread

    def before(self, onsets: FloatArray) -> FloatArray:
        """``(o,)`` share of the records it is compared with that came before each onset of a drift.

        That share of a drift since then is in ``value``.
        """
        return np.searchsorted(self.against, onsets) / self.against.size

    def log_likelihood_ratio(self, onsets: FloatArray) -> FloatArray:
        """``(o, d)`` log likelihood under an onset and one of the d ``LOG_DRIFTS`` over that under none."""
        expected = np.outer(self.before(onsets), LOG_DRIFTS)
        drifted = np.log1p(((self.value - expected) / self.spread) ** 2 / _FREEDOM)
        ratio = np.log1p((self.value / self.spread) ** 2 / _FREEDOM) - drifted
        return np.asarray(np.minimum(0.5 * (_FREEDOM + 1.0) * ratio, _MOST))


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


_ONSETS = 512  # records back that a drift may have begun
_SETTLING = 3  # repeats after which it is clear whether there is a drift
_EQUAL = 1.0  # log likelihoods that differ by less are as good as equal
# Least spread of a kernel measured twice on one platform; 0.004 to 0.015 on shipped datasets, with outliers.
# A noisy machine shows its own by the last repeats, of which the three that tell a drift are a minority.
_REPEAT_SPREAD, _REPEATS_KEPT, _REPEATS_FEW = 0.02, 32, 7


@dataclass(frozen=True)
class Drift:
    """A change of all latencies by one factor, from some record on.

    Attributes:
        ratio: Latencies after the drift over latencies of the same kernels before it.
        since: Number of the first record that is taken to have drifted.
    """

    ratio: float
    since: int


class DriftMonitor:
    """Compare measured latencies with predicted ones and with earlier ones of the same kernels.

    A drift is one factor on all latencies since some record, caused by other clocks, another driver or a
    neighbour. Any record may be the first that drifted. For each such onset, the likelihood ratios of all
    records since then are multiplied and averaged over factors of 1.08 to 2.5 up and down. The products are
    summed over onsets, which gives a Shiryaev-Roberts statistic.

    **Predictions** raise suspicion. The evidence of a new kernel is the ratio of its measured to its
    predicted latency, relative to the running level and spread of its task. A model's error on a whole task
    is thus no drift, and which task comes next does not matter. Predictions prove nothing, as the proposals
    of a search and the knowledge of its model change over time, too.

    **Repeats** decide. Without drift, a kernel that is measured again differs only by noise. The mean of the
    statistic of repeats after n records is then at most n, so it exceeds ``run_length`` within n records with
    a probability of at most ``n / run_length`` (Shin, Ramdas and Rinaldo, "E-detectors", arXiv:2203.03532,
    2023). A repeat is due (``repeats_due``) after every ``repeat_every`` measurements, after a repeat that
    was off by more than noise, and as long as the evidence of both is suspicious. Repeats then soon find the
    drift, or show that there is none.

    Args:
        run_length: Evidence of repeats at which a drift is reported.
        suspicion: Evidence of predictions and repeats at which kernels should be measured again.
        repeat_every: Number of measurements after which one kernel should be repeated without suspicion.

    Attributes:
        records: Number of records added.

    Raises:
        ValueError: An argument is out of range.

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
        """Forget everything but the noise of repeats, after a drift was corrected; numbering continues."""
        self._levels = Levels()
        self._repeats: list[tuple[int, Surprise]] = []
        self._onsets = np.zeros(0)
        self._of_predictions = self._of_repeats = np.zeros((0, LOG_DRIFTS.size))
        self._since_repeat = 0

    def add(self, task: str, log_ratio: float | None = None, *, measurements: int = 1) -> int:
        """Add a kernel that was measured for the first time.

        Args:
            task: Name of the group in which the model has one error factor, such as a workload on a device.
            log_ratio: Natural log of measured over predicted latency; over several SM budgets, the mean, as
                their errors are correlated. None if nothing was predicted.
            measurements: Number of measurements made.

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
