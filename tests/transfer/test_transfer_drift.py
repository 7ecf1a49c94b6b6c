from itertools import product

import numpy as np
import pytest

from costmodel.transfer import DriftMonitor

Z90 = 1.6448536  # 90 % of a normal distribution lie within as many standard deviations


def alarm_after(
    rng, limit: int, *, shift: float = 0.0, scale: float = 1.0, from_: int = 0, run_length=1000.0
):
    """Measurements until an alarm when log latency is normal; None without one."""
    monitor = DriftMonitor(run_length=run_length)
    for i in range(limit):
        error = rng.normal() if i < from_ else shift + scale * rng.normal()
        alarm = monitor.add(predicted_s=1.0, low_s=np.exp(-Z90), high_s=np.exp(Z90), measured_s=np.exp(error))
        if alarm:
            return alarm
    return None


def test_false_alarms_are_as_rare_as_promised() -> None:
    rng = np.random.default_rng(0)
    false = [alarm_after(rng, 100, run_length=400.0) is not None for _ in range(150)]
    # At most 100 / 400 of the runs may end so; the bound has room, as the promises are kept exactly.
    assert np.mean(false) <= 0.25


def test_the_statistics_grow_by_one_a_measurement_while_promises_are_kept() -> None:
    """The martingale behind the bound, over all sequences of four with the rates exactly as promised."""
    measured = {0.5: 0.05, 1.5: 0.45, 2.5: 0.45, 3.5: 0.05}
    mean = 0.0
    for sequence in product(measured, repeat=4):
        monitor = DriftMonitor(run_length=1e9, tolerance=0.0)
        for value in sequence:
            monitor.add(predicted_s=2.0, low_s=1.0, high_s=3.0, measured_s=value)
        evidence = np.mean([each.mean() for each in monitor._evidence.values()])
        mean += np.prod([measured[value] for value in sequence]) * evidence
    assert mean == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("shift", "scale", "reasons", "at_most"),
    [
        (2.0, 1.0, {"above", "slower"}, 12),
        (-2.0, 1.0, {"below", "faster"}, 12),
        (0.0, 3.0, {"above", "below"}, 40),
    ],
)
def test_breaks_are_found_soon_even_after_a_good_time(shift, scale, reasons, at_most) -> None:
    rng = np.random.default_rng(2)
    for start in (0, 50):
        alarms = [alarm_after(rng, 300, shift=shift, scale=scale, from_=start) for _ in range(20)]
        assert all(alarm is not None and alarm.reason in reasons for alarm in alarms)
        assert np.median([alarm.measurements - start for alarm in alarms]) <= at_most


def test_failures_are_above_everything_and_reset_forgets() -> None:
    monitor = DriftMonitor(run_length=50)
    for _ in range(4):
        alarm = monitor.add(predicted_s=1.0, low_s=0.5, high_s=2.0, measured_s=np.inf)
    assert alarm is not None
    assert (alarm.reason, alarm.measurements) == ("above", 4)
    assert alarm.evidence > 1.0
    monitor.reset()
    assert monitor.alarm is None
    assert monitor.measurements == 0


def test_what_cannot_be_is_refused() -> None:
    monitor = DriftMonitor()
    with pytest.raises(ValueError, match="low_s <= predicted_s <= high_s must hold"):
        monitor.add(predicted_s=1.0, low_s=2.0, high_s=3.0, measured_s=1.0)
    with pytest.raises(ValueError, match="measured_s be no NaN"):
        monitor.add(predicted_s=1.0, low_s=0.5, high_s=3.0, measured_s=np.nan)
    with pytest.raises(ValueError, match="run_length > 1"):
        DriftMonitor(run_length=1.0)
