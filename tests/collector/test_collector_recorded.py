"""A runner that stores each measurement, and makes none twice."""

import pytest
from msgspec.structs import replace

from costmodel.collector import RecordedRunner, ReplayRunner
from costmodel.errors import CostModelError
from costmodel.records import Outcome, RecordStore, read_records
from costmodel.records._measurement import UNKNOWN_CO_RUNNERS
from costmodel.testing import RUNNER_CHECKS, RunnerCase

pytestmark = pytest.mark.white_box


class Counting(ReplayRunner):
    """Serves records, counts how often, and dies at one of them."""

    def __init__(self, measurements, dies_at=None):
        super().__init__(measurements)
        self.asked, self.dies_at = [], dies_at

    def measure(self, candidates, platform, *, visit=0):
        self.asked += [candidate.candidate_id for candidate in candidates]
        if len(self.asked) == self.dies_at:
            raise RuntimeError("killed")
        return super().measure(candidates, platform, visit=visit)


@pytest.fixture(scope="module")
def case(records, tmp_path_factory):
    at_32 = [m for m in records if m.platform.sms_granted == 32]
    failing = next(m for m in at_32 if m.outcome is not Outcome.OK)
    store = tmp_path_factory.mktemp("recorded") / "records.jsonl"
    return RunnerCase(
        open=lambda: RecordedRunner(ReplayRunner(records), store),
        candidates=[m.candidate for m in at_32 if m.outcome is Outcome.OK][:3],
        failing=failing.candidate,
        sms=32,
    )


@pytest.mark.parametrize("check", RUNNER_CHECKS)
def test_it_keeps_the_contract_of_runners(check, case):
    check(case)


def test_what_is_stored_is_served_and_only_the_rest_is_measured(records, case, tmp_path):
    path = tmp_path / "records.jsonl"
    dying = Counting(records, dies_at=3)
    platform = dying.platform(32)
    with pytest.raises(RuntimeError, match="killed"):
        RecordedRunner(dying, path).measure(case.candidates, platform)
    assert [m.candidate for m in read_records(path)] == list(case.candidates[:2])
    going_on = Counting(records)
    measured = RecordedRunner(going_on, path).measure(case.candidates, platform)
    assert going_on.asked == [case.candidates[2].candidate_id]
    assert measured == ReplayRunner(records).measure(case.candidates, platform)
    assert list(read_records(path)) == measured


class Beside(Counting):
    """Measures beside others, twice as long as alone; kernels that fail do so either way."""

    has_neighbours = True

    @property
    def alone(self):
        return ReplayRunner(self.measurements)

    def __init__(self, measurements, dies_at=None):
        super().__init__(measurements, dies_at)
        self.measurements = measurements

    def measure(self, candidates, platform, *, visit=0):
        return [
            replace(
                m,
                latencies_s=tuple(2 * each for each in m.latencies_s),
                co_runners=UNKNOWN_CO_RUNNERS if m.latencies_s else (),
            )
            for m in super().measure(candidates, platform, visit=visit)
        ]


def test_what_was_measured_beside_others_is_measured_once_so_and_once_alone(records, case, tmp_path):
    path, runner = tmp_path / "records.jsonl", Beside(records)
    candidates = [*case.candidates[:1], case.failing]
    recorded, on = RecordedRunner(runner, path), runner.platform(32)
    beside = recorded.measure(candidates, on)
    assert recorded.measure(candidates, on) == beside
    assert len(runner.asked) == 2
    alone = recorded.alone.measure(candidates, on)
    assert alone[0].latency_s == beside[0].latency_s / 2
    assert recorded.alone.measure(candidates, on) == alone
    assert recorded.measure(candidates, on) == alone  # which says more
    assert list(read_records(path)) == [*beside, alone[0]]  # the failure was known


class WithoutMemory(Counting):
    """Has no memory for its kernels at first."""

    def __init__(self, measurements, until):
        super().__init__(measurements)
        self.until = until

    def measure(self, candidates, platform, *, visit=0):
        measured = super().measure(candidates, platform, visit=visit)
        if len(self.asked) > self.until:
            return measured
        failure = {"outcome": Outcome.LAUNCH_ERROR, "latencies_s": (), "error": "CUDA_ERROR_OUT_OF_MEMORY"}
        return [replace(each, **failure) for each in measured]


def test_what_failed_for_want_of_memory_is_measured_by_the_next_run(records, case, tmp_path):
    path, runner = tmp_path / "records.jsonl", WithoutMemory(records, until=1)
    for expected in (Outcome.LAUNCH_ERROR, Outcome.OK, Outcome.OK):
        (measured,) = RecordedRunner(runner, path).measure(case.candidates[:1], runner.platform(32))
        assert measured.outcome is expected
    assert len(runner.asked) == 2
    assert [each.outcome for each in read_records(path)] == [Outcome.OK]


def test_a_passing_failure_that_an_earlier_version_kept_is_no_answer(records, case, tmp_path):
    path, runner = tmp_path / "records.jsonl", Counting(records)
    failed = WithoutMemory(records, until=1).measure(case.candidates[:1], runner.platform(32))
    with RecordStore(path) as store:
        store.append(failed)
    for _ in range(2):
        with RecordStore(path) as store:
            assert (failed[0].key in store) == bool(runner.asked)
        (measured,) = RecordedRunner(runner, path).measure(case.candidates[:1], runner.platform(32))
        assert measured.outcome is Outcome.OK
    assert len(runner.asked) == 1


def test_each_platform_has_measurements_of_its_own(records, case, tmp_path):
    counting = Counting(records)
    runner = RecordedRunner(counting, tmp_path / "records.jsonl")
    for sms in (32, 132, 32):
        runner.measure(case.candidates[:1], runner.platform(sms))
    assert len(counting.asked) == 2


def test_what_another_process_stored_first_stays(records, case, tmp_path):
    path = tmp_path / "records.jsonl"
    early = RecordedRunner(ReplayRunner(records), path)
    with RecordStore(path) as store:
        store.append(ReplayRunner(records).measure(case.candidates[:1], early.platform(32)))
    early.measure(case.candidates[:1], early.platform(32))
    assert len(list(read_records(path))) == 1


def test_it_repeats_measurements_where_the_other_runner_does(records, tmp_path):
    assert RecordedRunner(ReplayRunner(records), tmp_path / "records.jsonl").repeats is False


def test_a_store_must_be_json_lines(records, tmp_path):
    with pytest.raises(CostModelError, match=r"must be a \.jsonl file"):
        RecordedRunner(ReplayRunner(records), tmp_path / "records.json")
