import pytest

from costmodel.collect import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.search import BudgetCurve, measured_curve, plot_curves, recorded_curves
from costmodel.search.report import BEST_KNOWN, CHOSEN, WHOLE_CHOICE


@pytest.fixture(scope="module")
def runner(records):
    return ReplayRunner(records)


def _by_hand(records, sms):
    return {m.candidate.candidate_id: m.latency_s for m in records if m.platform.sms_granted == sms}


def test_recorded_curves_are_those_of_the_records(runner, records, pool):
    chosen = pool.candidates[3]
    curves = {curve.label: curve.latency_s for curve in recorded_curves(runner, lambda _: chosen)}
    small, whole = _by_hand(records, 32), _by_hand(records, 132)
    whole_best = min(whole, key=whole.get)
    assert curves[CHOSEN] == {32: small[chosen.candidate_id], 132: whole[chosen.candidate_id]}
    assert curves[WHOLE_CHOICE] == {32: small[whole_best], 132: whole[whole_best]}
    assert curves[BEST_KNOWN] == {32: min(small.values()), 132: min(whole.values())}


def test_there_is_no_whole_device_choice_where_the_whole_device_was_not_recorded(records, pool):
    partial = ReplayRunner(m for m in records if m.platform.sms_granted == 32)
    labels = [curve.label for curve in recorded_curves(partial, lambda _: pool.candidates[0])]
    assert labels == [BEST_KNOWN, CHOSEN]


def test_measured_curve_asks_the_runner_and_leaves_failures_out(runner, records, pool):
    platforms = [runner.platform(32), runner.platform(132)]
    curve = measured_curve(runner, "chosen", pool.candidates[3], platforms)
    assert curve == recorded_curves(runner, lambda _: pool.candidates[3])[-1]
    failing = next(m.candidate for m in records if m.error)
    assert measured_curve(runner, "chosen", failing, platforms).latency_s == {}


def test_the_plot_is_a_png(tmp_path):
    path = tmp_path / "new" / "curves.png"
    curves = [BudgetCurve(BEST_KNOWN, {8: 1e-5, 132: 1e-6}), BudgetCurve(CHOSEN, {8: 2e-5, 132: 3e-6})]
    plot_curves(path, curves, title="t", unit="SMs", sms=[8])
    assert path.read_bytes().startswith(b"\x89PNG")


def test_an_unwritable_plot_is_an_error_for_the_user(tmp_path):
    (tmp_path / "file").write_text("")
    curves = [BudgetCurve(CHOSEN, {8: 1e-5})]
    with pytest.raises(CostModelError, match="Cannot write"):
        plot_curves(tmp_path / "file" / "x.png", curves, title="t", unit="SMs", sms=[8])
