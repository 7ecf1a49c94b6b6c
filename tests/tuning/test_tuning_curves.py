import pytest

from costmodel.collector import ReplayRunner
from costmodel.tuning._figures import plot_curves
from costmodel.tuning._findings import (
    BEST_KNOWN,
    CHOSEN,
    WHOLE_CHOICE,
    BudgetCurve,
    measured_curve,
    recorded_curves,
)

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"


@pytest.fixture(scope="module")
def runner(records):
    return ReplayRunner(records)


def _recorded(runner, chosen):
    return recorded_curves(runner.known_latencies(WORKLOAD), 132, lambda _: chosen)


def _by_hand(records, sms):
    return {m.candidate.candidate_id: m.latency_s for m in records if m.platform.sms_granted == sms}


def test_recorded_curves_are_those_of_the_records(runner, records, pool):
    chosen = pool.candidates[3]
    curves = {
        curve.label: curve.latency_s
        for curve in recorded_curves(runner.known_latencies(WORKLOAD), 132, lambda _: chosen)
    }
    small, whole = _by_hand(records, 32), _by_hand(records, 132)
    whole_best = min(whole, key=whole.get)
    assert curves[CHOSEN] == {32: small[chosen.candidate_id], 132: whole[chosen.candidate_id]}
    assert curves[WHOLE_CHOICE] == {32: small[whole_best], 132: whole[whole_best]}
    assert curves[BEST_KNOWN] == {32: min(small.values()), 132: min(whole.values())}


def test_there_is_no_whole_device_choice_where_the_whole_device_was_not_recorded(records, pool):
    partial = ReplayRunner(m for m in records if m.platform.sms_granted == 32)
    labels = [
        curve.label
        for curve in recorded_curves(partial.known_latencies(WORKLOAD), 132, lambda _: pool.candidates[0])
    ]
    assert labels == [BEST_KNOWN, CHOSEN]


def test_measured_curve_asks_the_runner_and_leaves_failures_out(runner, records, pool):
    platforms = [runner.platform(32), runner.platform(132)]
    curve = measured_curve(runner, "chosen", pool.candidates[3], platforms)
    assert curve == _recorded(runner, pool.candidates[3])[-1]
    failing = next(m.candidate for m in records if m.error)
    assert measured_curve(runner, "chosen", failing, platforms).latency_s == {}


def test_curves_are_drawn_one_line_each_and_the_budgets_tuned_for_are_marked():
    curves = [BudgetCurve(BEST_KNOWN, {8: 1e-5, 132: 1e-6}), BudgetCurve(CHOSEN, {8: 2e-5, 132: 3e-6})]
    (axes,) = plot_curves(curves, title="t", unit="SMs", sms=[8]).axes
    best, chosen, marked = axes.lines
    assert (best.get_label(), chosen.get_label()) == (BEST_KNOWN, CHOSEN)
    assert chosen.get_xydata().tolist() == [[8, pytest.approx(20.0)], [132, pytest.approx(3.0)]]
    assert list(marked.get_xdata()) == [8, 8]
    assert axes.get_title() == "t"
