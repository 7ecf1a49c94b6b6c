import numpy as np
import pytest

from costmodel.search import DriftMonitor
from costmodel.search._drift_monitor import Surprise

pytestmark = pytest.mark.white_box

NOISE = 0.01


def watched(rng, factor=1.0, *, onset=60, measurements=1, kernels=150, bias=0.3, noise=NOISE):
    """Kernels of three tasks, one after the other, and repeats where the monitor wants them.

    Returns:
        The monitor, and after how many kernels it told a drift; None if it did not.
    """
    monitor = DriftMonitor()
    checked = 0
    for i in range(kernels):
        drifted = np.log(factor) if i >= onset else 0.0
        task = i // 50
        monitor.add(str(task), bias * task + rng.normal(0.0, 0.3) + drifted, measurements=measurements)
        for _ in range(4):
            if not monitor.repeats_due:
                break
            first = int(rng.integers(checked or i // 2 + 1))
            monitor.repeat(first, rng.normal(0.0, noise) + drifted * (first < onset))
            checked = i + 1
            if monitor.drift:
                return monitor, i
    return monitor, None


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("factor", [1.1, 1.3, 1.5, 1 / 1.1, 1 / 1.3, 1 / 1.5])
def test_a_drift_is_told_soon_with_its_size_and_onset(factor, seed) -> None:
    monitor, told = watched(np.random.default_rng(seed), factor)
    assert told is not None
    assert 60 <= told <= 100
    assert monitor.drift.ratio == pytest.approx(factor, rel=0.02)
    assert monitor.drift.since == pytest.approx(60, abs=20)


def test_it_is_told_sooner_where_a_kernel_is_many_measurements() -> None:
    after = [watched(np.random.default_rng(seed), 1.3, measurements=12)[1] - 60 for seed in range(10)]
    assert max(after) <= 4


@pytest.mark.parametrize("bias", [0.0, 2.0])
def test_nothing_is_told_where_nothing_drifts_however_wrong_the_model_is_on_a_task(bias) -> None:
    told = [watched(np.random.default_rng(seed), bias=bias)[1] for seed in range(20)]
    assert told == [None] * 20


def test_a_noisy_machine_shows_how_noisy_it_is() -> None:
    monitor, rng = DriftMonitor(), np.random.default_rng(0)
    told = 0
    for i in range(2000):
        monitor.add("task", rng.normal(0.0, 0.3))
        if i and monitor.repeats_due:
            monitor.repeat(int(rng.integers(max(0, i - 15), i)), rng.normal(0.0, 0.15))
        if monitor.drift:
            told += 1
            monitor.reset()
    assert told <= 2


def test_the_mean_of_a_likelihood_ratio_is_1_and_at_most_1_where_it_is_bounded() -> None:
    """What the bound on false alarms rests on, integrated over Student's t."""
    from scipy.stats import t

    quantiles = t.ppf((np.arange(2_000) + 0.5) / 2_000, df=4)
    for spread, least in ((0.5, 0.9), (0.02, 0.0)):
        surprises = [Surprise(spread * value, spread, np.array([0.0])) for value in quantiles]
        ratios = np.exp([each.log_likelihood_ratio(np.array([1.0]))[0] for each in surprises])
        assert (ratios.mean(axis=0) > least).all()
        assert (ratios.mean(axis=0) < 1.01).all()


def test_one_outlier_is_no_drift_and_the_next_repeat_clears_it() -> None:
    monitor = DriftMonitor()
    for _ in range(20):
        monitor.add("task", 0.0)
    monitor.repeat(3, 0.5)
    assert monitor.drift is None
    assert monitor.repeats_due
    monitor.repeat(4, 0.001)
    monitor.repeat(5, -0.002)
    assert not monitor.repeats_due
    assert monitor.drift is None


def test_predictions_raise_a_suspicion_that_repeats_decide() -> None:
    monitor, rng = DriftMonitor(repeat_every=1000), np.random.default_rng(0)
    for i in range(80):
        monitor.add("task", rng.normal(0.0, 0.2) + (0.6 if i >= 40 else 0.0))
    assert monitor.evidence > monitor.run_length
    assert monitor.repeats_due
    assert monitor.drift is None  # whatever they say
    for number in (4, 9, 14, 19):
        monitor.repeat(number, rng.normal(0.0, NOISE))
    assert not monitor.repeats_due
    assert monitor.drift is None


def test_predictions_tell_the_onset_between_two_repeats() -> None:
    monitor, rng = DriftMonitor(repeat_every=1000), np.random.default_rng(1)
    for i in range(60):
        monitor.add("task", rng.normal(0.0, 0.05) + (0.5 if i >= 47 else 0.0))
    for number in (4, 9, 14):
        monitor.repeat(number, 0.5)
    assert monitor.drift.since == pytest.approx(47, abs=2)


def test_predictions_tell_no_onset_before_a_repeat_that_showed_no_drift() -> None:
    """A model that is off on a new part of a space looks like a drift, until a known kernel is as fast."""
    monitor = DriftMonitor()
    for i in range(60):
        monitor.add("task", 0.05 * (-1) ** i if i < 40 else 0.8)
    monitor.repeat(3, 0.0)
    for _ in range(5):
        monitor.add("task", 0.8)
    for number in (8, 1, 2):
        monitor.repeat(number, 0.8)
    assert monitor.drift is not None
    assert monitor.drift.since >= 60


def test_a_kernel_measured_twice_since_a_drift_tells_nothing_of_it() -> None:
    monitor = DriftMonitor()
    for _ in range(40):
        monitor.add("task")
    for number in (1, 2, 3):
        monitor.repeat(number, 0.3)
    assert monitor.drift.since <= 39
    monitor.reset()
    assert monitor.drift is None
    assert monitor.evidence == 0.0
    for _ in range(20):
        number = monitor.add("task")
    assert number == 59
    for again in (41, 45, 50):
        monitor.repeat(again, 0.0)
    assert monitor.drift is None


def test_what_cannot_be_is_refused() -> None:
    monitor = DriftMonitor()
    with pytest.raises(ValueError, match="log_ratio must be finite, but got nan"):
        monitor.add("task", np.nan)
    with pytest.raises(ValueError, match="number must be one of 0 records, but got 0"):
        monitor.repeat(0, 0.0)
    with pytest.raises(ValueError, match="suspicion <= run_length"):
        DriftMonitor(run_length=10.0)
