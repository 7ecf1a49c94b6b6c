import re

import pytest
from msgspec.structs import replace

from costmodel.collector import ReplayRunner
from costmodel.errors import CostModelError
from costmodel.records import Outcome
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS
from costmodel.testing import RUNNER_CHECKS, RunnerCase, gpu_landscape, landscape_platform

pytestmark = pytest.mark.white_box

WORKLOAD = "matmul-m512-n512-k512"


@pytest.fixture(scope="module")
def records():
    dataset = gpu_landscape(seed=3, workloads=[WORKLOAD], configs_per_workload=60, sms=(8, 32, 132))
    return dataset.to_measurements()


@pytest.fixture(scope="module")
def case(records):
    first = [m for m in records if m.platform.sms_granted == 32]
    failing = next(m.candidate for m in first if m.outcome is not Outcome.OK)
    running = [m.candidate for m in first if m.outcome is Outcome.OK]
    return RunnerCase(lambda: ReplayRunner(records), running[:4], failing, sms=32, impossible_sms=33)


@pytest.mark.parametrize("check", RUNNER_CHECKS)
def test_replay_keeps_the_runner_contract(check, case):
    check(case)


def test_replay_serves_the_very_records(records):
    runner = ReplayRunner(reversed(records))
    wanted = [m for m in records if m.platform.sms_granted == 8]
    served = runner.measure([m.candidate for m in wanted], landscape_platform(8))
    assert served == wanted


def test_description_says_that_nothing_is_measured(records):
    description = ReplayRunner(records).description
    assert "nothing is measured" in description
    assert "landscape GPU" in description
    assert str(len(records)) in description


def test_refused_budget_names_the_recorded_ones(records):
    with pytest.raises(CostModelError, match=re.escape("(8, 32, 132), but got 64")):
        ReplayRunner(records).platform(64)


def test_whole_device_is_refused_when_only_parts_were_recorded(records):
    partial = ReplayRunner(m for m in records if m.platform.sms_granted < 132)
    with pytest.raises(CostModelError, match="but got 132"):
        partial.platform()


def test_a_config_that_was_never_recorded_is_an_error_not_a_failure(records):
    missing = records[0].candidate
    runner = ReplayRunner(m for m in records if m.candidate.candidate_id != missing.candidate_id)
    with pytest.raises(CostModelError, match=missing.config.config_id):
        runner.measure([missing], runner.platform(8))


def test_a_visit_that_was_never_recorded_is_not_made_up(records):
    runner = ReplayRunner(records)
    with pytest.raises(CostModelError, match="visit 1"):
        runner.measure([records[0].candidate], runner.platform(8), visit=1)


def test_known_latencies_are_those_that_work(records):
    runner = ReplayRunner(records)
    known = runner.known_latencies(WORKLOAD)
    assert tuple(known) == runner.budgets == (8, 32, 132)
    assert known[32] == {
        m.candidate.candidate_id: m.latency_s
        for m in records
        if m.platform.sms_granted == 32 and m.outcome is Outcome.OK
    }


@pytest.mark.parametrize(
    ("name", "text"), [("matmul-m512-n512-k51", "Did you mean"), ("zzz", "Recorded are")]
)
def test_a_workload_that_was_not_recorded_is_refused(records, name, text):
    runner = ReplayRunner(records)
    for ask in (runner.known_latencies, lambda name: runner.space(name, [runner.platform()])):
        with pytest.raises(CostModelError, match=f"{text}.*{WORKLOAD}"):
            ask(name)


def test_measurements_of_no_device_are_refused():
    with pytest.raises(CostModelError, match="exactly one device, but got none"):
        ReplayRunner([])


def test_the_space_lists_the_candidates_of_a_platform(records):
    kept = [m for m in records if not (m.platform.sms_granted == 8 and m.candidate == records[0].candidate)]
    runner = ReplayRunner(kept)
    eight, whole = (runner.space(WORKLOAD, [runner.platform(sms)]).candidates for sms in (8, 132))
    assert len(whole) == 60
    assert [c.candidate_id for c in eight] == [c.candidate_id for c in whole[1:]]


def test_candidates_on_several_platforms_are_those_recorded_on_all_in_the_order_of_the_last(records):
    first = [m for m in records if m.platform.sms_granted == 8]
    whole = [m for m in records if m.platform.sms_granted == 132]
    runner = ReplayRunner([*first[2:], *reversed(whole[:-1])])
    both = runner.space(WORKLOAD, [runner.platform(8), runner.platform()])
    assert both.platforms == (runner.platform(8), runner.platform())
    assert [c.candidate_id for c in both.candidates] == [
        m.candidate.candidate_id for m in reversed(whole[2:-1])
    ]


def test_what_ran_beside_others_is_not_served(records):
    at_32 = [m for m in records if m.platform.sms_granted == 32 and m.outcome is Outcome.OK]
    alone, other = at_32[:2]
    beside = [
        replace(m, latencies_s=tuple(2 * each for each in m.latencies_s), co_runners=UNKNOWN_CO_RUNNERS)
        for m in (alone, other)
    ]
    runner = ReplayRunner([alone, *beside])
    known = {alone.candidate.candidate_id: alone.latency_s}
    assert runner.known_latencies(WORKLOAD) == {32: known}
    space = runner.space(WORKLOAD, [runner.platform(32)])
    assert (space.size, space.holds(alone.candidate)) == (1, True)
    with pytest.raises(CostModelError, match="alone on exactly one device, but got none"):
        ReplayRunner(beside)
